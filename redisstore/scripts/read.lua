local fence, stream, seq, n, bound = ARGV[1], ARGV[2], tonumber(ARGV[3]) + 1, tonumber(ARGV[4]), tonumber(ARGV[5])
local hint = tonumber(ARGV[6]) -- the first event of the chunk that has event seq, if it still has; 0: unknown

local got = redis.call('HMGET', key, 't', 'f', 'l' .. stream)
if got[1] then return {GONE} end
if fence ~= '' then
  if not got[2] then return {behind(0)} end
  if got[2] ~= fence then return {FENCED} end
end
if not got[3] then return {OK, '1', '0', 0, '0'} end
local l = unpackLog(got[3])
local answer = {OK, int(l.first), int(l.last), l.sealed and 1 or 0, '0'}
if seq < l.first then seq = l.first end
if seq > l.last or n == 0 then return answer end

-- The hint for the next read follows: finding a chunk takes a call for each event before the wanted one. Then pieces of chunks, two values each: 1
-- and a whole chunk, or 0 and events as in a chunk, without the count. A whole chunk is not copied: Redis takes longer to make a string in Lua, of
-- which it hashes each byte, than to send it.
local at, chunk = hint, nil
if hint > 0 and hint <= seq and seq - hint < most then chunk = redis.call('HGET', key, chunkName(l, hint)) end
if not chunk or hint + countOf(chunk) <= seq then
  at = locate(l, seq)
  chunk = redis.call('HGET', key, chunkName(l, at))
end
local begun, bounded = false, bound > 0
while at <= l.last and n > 0 do
  chunk = chunk or redis.call('HGET', key, chunkName(l, at))
  local have = at + countOf(chunk) - seq -- events from seq on
  local from = hop(chunk, 3, seq - at)
  local data = #chunk - from + 1 - 4 * have
  if have <= n and (not bounded or data <= bound) then
    answer[#answer + 1] = at == seq and 1 or 0
    answer[#answer + 1] = at == seq and chunk or string.sub(chunk, from)
    begun, n, bound, seq = true, n - have, bound - data, seq + have
    at, chunk = seq, nil
  else
    local to = from
    for _ = 1, math.min(have, n) do
      local size = struct.unpack('<I4', chunk, to)
      if bounded and begun and size > bound then break end
      begun, bound, to = true, bound - size, to + 4 + size
    end
    if to > from then
      answer[#answer + 1] = 0
      answer[#answer + 1] = string.sub(chunk, from, to - 1)
    end
    break
  end
end
answer[5] = int(at)
return answer
