local m = get(ARGV[1])
if m and m.incarnation == ARGV[2] then
  m.left = '1'
  put(ARGV[1], m)
end
return OK
