if redis.call('HGET', key, 'f') ~= ARGV[1] then return UNKNOWN end
redis.call('PEXPIRE', key, ARGV[2])
return OK
