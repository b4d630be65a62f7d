local session, since = KEYS[2], KEYS[3]
local got = redis.call('HMGET', session, 't', 'f', 'o', 'a', 'v', 's', 'r')
local m = get(ARGV[1])
local count = m and m.incarnation == ARGV[2] and m.count or '0'
return {got, count, age(since)}
