local got = redis.call('HMGET', key, 't', 'f')
if got[1] then return OK end
if not got[2] then
  redis.call('UNLINK', key)
  return OK
end
local record = redis.call('HMGET', key, 'f', 'o', 'a', 'v', 's', 'r')
local ttl = redis.call('PTTL', key)
redis.call('UNLINK', key)
for i, name in ipairs({'f', 'o', 'a', 'v', 's', 'r'}) do
  if record[i] then redis.call('HSET', key, name, record[i]) end
end
if ttl > 0 then redis.call('PEXPIRE', key, ttl) end
return OK
