-- The processes of a cluster are one hash: self → "generation count left expires incarnation". expires is in milliseconds of the engine's clock.
local members = KEYS[1]
local SUPERSEDED, OK = -1, 0

-- leases is how many leases an entry is kept after its last renewal.
local leases = 4

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function int(n) return string.format('%.0f', n) end

-- unpackMember reads an entry; nil: there is none, or it has expired.
local function unpackMember(text)
  if not text then return nil end
  local generation, count, left, expires, incarnation = string.match(text, '^(%d+) (%d+) (%d) (%d+) (.*)$')
  if tonumber(expires) <= now then return nil end
  return {generation = generation, count = count, left = left, expires = expires, incarnation = incarnation}
end

local function packMember(m)
  return m.generation .. ' ' .. m.count .. ' ' .. m.left .. ' ' .. m.expires .. ' ' .. m.incarnation
end

local function get(self) return unpackMember(redis.call('HGET', members, self)) end

local function put(self, m) redis.call('HSET', members, self, packMember(m)) end

-- all returns what is not expired, as {self, entry, …}, and removes the rest.
local function all()
  local found = {}
  local entries = redis.call('HGETALL', members)
  for i = 1, #entries, 2 do
    if unpackMember(entries[i + 1]) then
      found[#found + 1] = entries[i]
      found[#found + 1] = entries[i + 1]
    else
      redis.call('HDEL', members, entries[i])
    end
  end
  return found
end

-- own returns the entry of a process, and makes one if there is none or one of a lower generation. If a newer process has the address, it
-- returns nil and the entry of that one.
local function own(self, incarnation, generation)
  local m = get(self)
  if not m or tonumber(m.generation) < tonumber(generation) then
    return {generation = generation, count = '0', left = '0', incarnation = incarnation}
  end
  if tonumber(m.generation) > tonumber(generation) or m.incarnation ~= incarnation then return nil, m end
  return m
end

local function extend(self, m, lease)
  m.expires = int(now + leases * tonumber(lease))
  put(self, m)
  local left = redis.call('PTTL', members)
  if left < leases * tonumber(lease) then redis.call('PEXPIRE', members, int(leases * tonumber(lease))) end
end

-- since returns for how many microseconds the engine has lost nothing, as far as it can tell. The key says in which life of the engine it was
-- set: the replication id changes with a restart and with a promotion.
local function age(since)
  local life = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
  local micros = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
  local was, at = string.match(redis.call('GET', since) or '', '^(%w+) (%d+)$')
  if was ~= life then
    redis.call('SET', since, life .. ' ' .. int(micros))
    return '0'
  end
  return int(math.max(micros - tonumber(at), 0))
end
