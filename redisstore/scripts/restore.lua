local fence, stream, first, n, seal = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
local limit, flags, about, chunk, plainTTL = tonumber(ARGV[7]), ARGV[9], ARGV[10], ARGV[11], ARGV[12]

local got = redis.call('HMGET', key, 't', 'f', 'z', 'l' .. stream)
if got[1] then return GONE end
if not got[2] then
  if fence ~= '' then return behind(0) end
elseif got[2] ~= fence then
  return FENCED
end
unpackTotals(got[3])
local l = got[4] and unpackLog(got[4])

local last = first - 1 + n
if first == 0 or (last == 0 and seal) then return SEQUENCE end
if l then
  if l.sealed and seal and last == l.last and (n == 0 or has(l, last, chunk, hop(chunk, 3, n - 1))) then return OK end
  if l.sealed or last < l.last then return SEQUENCE end
else
  ever = ever + 1
  l = {nth = int(ever), first = 1, start = 1, tail = 1, last = 0, bytes = 0, sealed = false, backlog = false, about = ''}
end
local bytes = n > 0 and charge(chunk) or 0
if not seal and limit > 0 and bytes > l.bytes then
  local others = spare(l) and evictable - l.bytes or evictable
  if used - l.bytes + bytes - limit > others then return FULL end
end
forgetAll(l)
if not seal and limit > 0 then room(bytes, limit, stream) end

l.first, l.start, l.tail, l.last, l.bytes = first, first, first, last, bytes
l.sealed, l.backlog, l.about = seal, flags == 'b', about
used = used + bytes
if spare(l) then evictable = evictable + bytes end
redis.call('HSET', key, 'l' .. stream, packLog(l), 'z', packTotals())
if n > 0 then redis.call('HSET', key, chunkName(l, first), chunk) end
if fence == '' then redis.call('PEXPIRE', key, plainTTL) end
return OK
