local fence, stream = ARGV[1], ARGV[2]

local got = redis.call('HMGET', key, 't', 'f', 'z', 'l' .. stream)
if got[1] then return OK end
if not got[2] and fence ~= '' then return UNKNOWN end
if got[2] and got[2] ~= fence then return FENCED end
if not got[4] then return OK end
unpackTotals(got[3])
forgetAll(unpackLog(got[4]))
redis.call('HDEL', key, 'l' .. stream)
redis.call('HSET', key, 'z', packTotals())
return OK
