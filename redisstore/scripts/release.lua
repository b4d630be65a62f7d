local got = redis.call('HMGET', key, 't', 'f')
if got[1] then return GONE end
if not got[2] then return UNKNOWN end
if got[2] ~= ARGV[1] then return FENCED end
redis.call('HSET', key, 'r', '1')
return OK
