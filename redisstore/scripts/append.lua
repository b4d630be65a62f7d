local fence, stream, first, n, seal = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
local acked, limit, backlogLimit, flags, about, chunk, plainTTL = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9], ARGV[10], ARGV[11], ARGV[12]

local got = redis.call('HMGET', key, 't', 'f', 'z', 'l' .. stream)
if got[1] then return GONE end
if not got[2] then
  if fence ~= '' then return behind(0) end
elseif got[2] ~= fence then
  return FENCED
end
unpackTotals(got[3])
local l = got[4] and unpackLog(got[4])
local last = l and l.last or 0

local before = first - 1
if first == 0 or (n == 0 and seal) then return SEQUENCE end
if before > last then
  if l and l.sealed then return SEALED end
  return behind(last)
end
local both = math.min(last - before, n)
if n > 0 and (both > 0 or (l and l.sealed)) then
  local same = both == 0 or has(l, before + both, chunk, hop(chunk, 3, both - 1))
  if both < n and same and not l.sealed then
    chunk = after(chunk, both)
  elseif both == n and same and seal == (l.sealed and before + n == last) then
    return OK
  elseif l.sealed then
    return SEALED
  else
    return SEQUENCE
  end
end
if n == 0 and l then return OK end

if not l then
  ever = ever + 1
  l = {nth = int(ever), first = 1, start = 1, tail = 1, last = 0, bytes = 0, sealed = false, backlog = flags == 'b', about = about}
end
if acked >= l.first then forgetTo(l, math.min(acked, last) + 1) end

if n > 0 then
  local bytes = charge(chunk)
  if not seal and limit > 0 then
    if l.backlog and backlogLimit > 0 then
      if bytes > backlogLimit then return FULL end
      while l.bytes + bytes > backlogLimit do forgetOldest(l) end
    end
    if l.backlog then -- its own oldest events go first
      while used + bytes > limit and l.bytes > 0 and used - evictable + bytes <= limit do forgetOldest(l) end
    end
    if not room(bytes, limit, stream) then
      if got[4] then redis.call('HSET', key, 'z', packTotals(), 'l' .. stream, packLog(l)) end -- what was acknowledged is gone
      return FULL
    end
  end
  l.tail = last + 1
  l.last = last + countOf(chunk)
  l.bytes = l.bytes + bytes
  used = used + bytes
  if spare(l) then evictable = evictable + bytes end
  if seal and not spare(l) then evictable = evictable + l.bytes end
  l.sealed = seal
  redis.call('HSET', key, chunkName(l, l.tail), chunk, 'l' .. stream, packLog(l), 'z', packTotals())
else
  redis.call('HSET', key, 'l' .. stream, packLog(l), 'z', packTotals())
end
if fence == '' then redis.call('PEXPIRE', key, plainTTL) end
if limit > 0 and used - evictable >= limit / 2 and l.bytes >= limit / 8 and not spare(l) then return SHORT end
return OK
