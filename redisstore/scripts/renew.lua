local self, incarnation, generation, lease, count, left, view = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7] == '1'
age(KEYS[2])
local m = own(self, incarnation, generation)
if not m then return {SUPERSEDED} end
local was = m.count
if tonumber(count) > tonumber(m.count) then m.count = count end
if left == '1' then m.left = '1' end
extend(self, m, lease)
return {OK, was, view and all() or {}}
