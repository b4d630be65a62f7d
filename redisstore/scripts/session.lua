-- A session is one hash:
--
--   t            a tombstone: the session has ended. The hash has no other field then.
--   f            the fence of the owner: "epoch:incarnation". Without it there is no record.
--   o  a  v  s   owner "generation self", "format about", version, state. No s: nothing was saved.
--   r            the owner has let go.
--   z            of the logs: "how many ever", "bytes", "bytes that may be evicted".
--   l<stream>    a log; see pack.
--   <nth>.<seq>  a chunk: the events of one Append, from seq on, as <count, 2 bytes>, then for each <length, 4 bytes> and its bytes.
--                nth is the number of the log in the session.
local key = KEYS[1]

local FENCED, GONE, FULL, SEALED, SEQUENCE, UNKNOWN = -1, -2, -3, -4, -5, -6
local OK, SHORT = 0, 1

-- behind answers that the log ends with an event before the one that was given.
local function behind(last) return -100 - last end

-- overhead is what a chunk costs in memory beside its bytes. most is how many events it has at most.
local overhead, most = 96, 128

local function int(n) return string.format('%.0f', n) end

-- The logs of the session.
local ever, used, evictable = 0, 0, 0

local function unpackTotals(text)
  if text then
    local e, u, v = string.match(text, '^(%d+) (%d+) (%d+)$')
    ever, used, evictable = tonumber(e), tonumber(u), tonumber(v)
  end
end

local function packTotals() return int(ever) .. ' ' .. int(used) .. ' ' .. int(evictable) end

-- unpackLog reads a log: its number, the oldest event that is kept, the first events of its first and last chunk, the last event, the bytes of
-- its chunks, flags (s: sealed, b: backlog), and what the owner says about it.
local function unpackLog(text)
  local nth, first, start, tail, last, bytes, flags, about = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%a*) (.*)$')
  return {
    nth = nth, first = tonumber(first), start = tonumber(start), tail = tonumber(tail), last = tonumber(last), bytes = tonumber(bytes),
    sealed = string.find(flags, 's', 1, true) ~= nil, backlog = string.find(flags, 'b', 1, true) ~= nil, about = about,
  }
end

local function packLog(l)
  local flags = (l.sealed and 's' or '') .. (l.backlog and 'b' or '')
  return l.nth .. ' ' .. int(l.first) .. ' ' .. int(l.start) .. ' ' .. int(l.tail) .. ' ' .. int(l.last) .. ' ' .. int(l.bytes) .. ' ' .. flags .. ' ' .. l.about
end

local function chunkName(l, seq) return l.nth .. '.' .. int(seq) end

local function charge(chunk) return #chunk + overhead end

local function countOf(chunk) return struct.unpack('<I2', chunk) end

-- hop returns the position behind n events of a chunk.
local function hop(chunk, pos, n)
  for _ = 1, n do
    pos = pos + 4 + struct.unpack('<I4', chunk, pos)
  end
  return pos
end

-- locate returns the first event of the chunk that has event seq, which is kept.
local function locate(l, seq)
  if seq >= l.tail then return l.tail end
  for at = seq, math.max(l.start, seq - most + 1), -1 do
    if redis.call('HEXISTS', key, chunkName(l, at)) == 1 then return at end
  end
  error('rejoin: a chunk is missing')
end

-- has tells whether event seq of the log is the event at pos of a chunk. One that was evicted is assumed to be.
local function has(l, seq, chunk, pos)
  if seq < l.first then return true end
  local at = locate(l, seq)
  local mine = redis.call('HGET', key, chunkName(l, at))
  local from = hop(mine, 3, seq - at)
  return string.sub(mine, from, hop(mine, from, 1) - 1) == string.sub(chunk, pos, hop(chunk, pos, 1) - 1)
end

-- after makes a chunk of the events of another one that follow the first n.
local function after(chunk, n)
  if n == 0 then return chunk end
  return struct.pack('<I2', countOf(chunk) - n) .. string.sub(chunk, hop(chunk, 3, n))
end

local function spare(l) -- may its events be evicted?
  return l.sealed or l.backlog
end

-- forgetTo removes the chunks of a log that end before event seq, and with them what it cannot give any more. It returns how many bytes that was.
local function forgetTo(l, seq)
  local names, freed, at = {}, 0, l.start
  while at < seq and at <= l.last do
    local chunk = redis.call('HGET', key, chunkName(l, at))
    local behindIt = at + countOf(chunk)
    if behindIt > seq then break end
    names[#names + 1] = chunkName(l, at)
    freed = freed + charge(chunk)
    at = behindIt
    if #names == 1000 then
      redis.call('HDEL', key, unpack(names))
      names = {}
    end
  end
  if #names > 0 then redis.call('HDEL', key, unpack(names)) end
  l.start = at
  l.first = math.max(l.first, seq)
  l.bytes = l.bytes - freed
  used = used - freed
  if spare(l) then evictable = evictable - freed end
  return freed
end

local function forgetAll(l) return forgetTo(l, l.last + 1) end

local function forgetOldest(l)
  return forgetTo(l, l.start + countOf(redis.call('HGET', key, chunkName(l, l.start))))
end

-- logsInOrder returns the names and the logs of the session, in the order in which they were begun.
local function logsInOrder()
  local fields, all = {}, {}
  for _, name in ipairs(redis.call('HKEYS', key)) do
    if string.byte(name) == 108 then fields[#fields + 1] = name end -- 'l'
  end
  for from = 1, #fields, 1000 do
    local to = math.min(from + 999, #fields)
    for i, text in ipairs(redis.call('HMGET', key, unpack(fields, from, to))) do
      all[#all + 1] = {name = string.sub(fields[from + i - 1], 2), log = unpackLog(text)}
    end
  end
  table.sort(all, function(a, b) return tonumber(a.log.nth) < tonumber(b.log.nth) end)
  return all
end

-- evict frees bytes: the oldest events of backlogs, then sealed logs, the oldest first. It spares one log.
local function evict(bytes, spared)
  local all = logsInOrder()
  local function each(wanted, free)
    for _, entry in ipairs(all) do
      local l = entry.log
      if bytes <= 0 then return end
      if wanted(l) and entry.name ~= spared and l.bytes > 0 then
        free(l)
        redis.call('HSET', key, 'l' .. entry.name, packLog(l))
      end
    end
  end
  each(function(l) return l.backlog and not l.sealed end, function(l)
    while bytes > 0 and l.bytes > 0 do bytes = bytes - forgetOldest(l) end
  end)
  each(function(l) return l.sealed end, function(l) bytes = bytes - forgetAll(l) end)
end

-- room sees to it that the session has room for bytes more, which are of a log. It returns false if that cannot be.
local function room(bytes, limit, name)
  local missing = used + bytes - limit
  if missing <= 0 then return true end
  if missing > evictable then return false end
  evict(math.max(missing, math.floor(limit / 16)), name)
  return used + bytes <= limit
end
