local fence, stream, seq, n, bound = ARGV[1], ARGV[2], tonumber(ARGV[3]) + 1, tonumber(ARGV[4]), tonumber(ARGV[5])

local got = redis.call('HMGET', key, 't', 'f', 'l' .. stream)
if got[1] then return {GONE} end
if fence ~= '' then
  if not got[2] then return {behind(0)} end
  if got[2] ~= fence then return {FENCED} end
end
if not got[3] then return {OK, '1', '0', 0} end
local l = unpackLog(got[3])
local answer = {OK, int(l.first), int(l.last), l.sealed and 1 or 0}
if seq < l.first then seq = l.first end
if seq > l.last or n == 0 then return answer end

-- Pieces of chunks follow: events as in a chunk, without the count.
local at, begun, bounded = locate(l, seq), false, bound > 0
while at <= l.last and n > 0 do
  local chunk = redis.call('HGET', key, chunkName(l, at))
  local have = at + countOf(chunk) - seq -- events from seq on
  local from = hop(chunk, 3, seq - at)
  local data = #chunk - from + 1 - 4 * have
  if have <= n and (not bounded or data <= bound) then
    answer[#answer + 1] = string.sub(chunk, from)
    begun, n, bound, seq = true, n - have, bound - data, seq + have
    at = seq
  else
    local to = from
    for _ = 1, math.min(have, n) do
      local size = struct.unpack('<I4', chunk, to)
      if bounded and begun and size > bound then break end
      begun, bound, to = true, bound - size, to + 4 + size
    end
    if to > from then answer[#answer + 1] = string.sub(chunk, from, to - 1) end
    break
  end
end
return answer
