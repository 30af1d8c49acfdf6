# Keeps scope.proto out of the generated headers, which nearly every source includes: its #include moves into the generated
# sources, and its options go from the comments that quote a field. A stage or a condition added to the schema then
# changes no header, and the compiler cache keeps the rest of the program.
set(private "#include \"core/config/scope.pb.h\"\n")
foreach(header IN LISTS HEADERS)
  file(READ "${header}" text)
  string(FIND "${text}" "${private}" found)
  if(found EQUAL -1)
    continue()
  endif()
  string(REPLACE "${private}" "" text "${text}")
  string(REGEX REPLACE " \\[\\(\\.trireme\\.schema\\.(stages|needs|stage_default|groups)\\)[^\n]*" ";" text "${text}")
  string(REGEX REPLACE ", \\(\\.trireme\\.schema\\.(stages|needs|stage_default|groups)\\)[^\n]*" "];" text "${text}")
  file(WRITE "${header}" "${text}")
  string(REGEX REPLACE "\\.h$" ".cc" source "${header}")
  file(READ "${source}" text)
  file(WRITE "${source}" "${private}${text}")
endforeach()
