local self, incarnation, generation, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
age(KEYS[2])
all()
local m, newer = own(self, incarnation, generation)
if not m then return {SUPERSEDED, packMember(newer)} end
extend(self, m, lease)
return {OK, packMember(m)}
