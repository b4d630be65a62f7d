local got = redis.call('HMGET', key, 't', 'f')
if got[1] then return OK end
if got[2] and got[2] ~= ARGV[1] then return FENCED end
redis.call('UNLINK', key)
redis.call('HSET', key, 't', '1')
redis.call('PEXPIRE', key, ARGV[2])
return OK
