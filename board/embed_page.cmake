# Writes the files INPUTS (a list) as C++ arrays with their names into OUTPUT; plain C++ works on every architecture.
string(REPEAT "0x..," 32 line)
set(arrays)
set(rows)
set(count 0)
foreach(input IN LISTS INPUTS)
  file(READ "${input}" bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
  get_filename_component(name "${input}" NAME)
  string(APPEND arrays "const unsigned char kFile${count}[] = {\n${bytes}\n};\n")
  string(APPEND rows "    {\"${name}\", kFile${count}, ${size}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUTPUT}" "#include \"board/page_files.h\"
namespace trireme {
namespace {
${arrays}
}  // namespace
const EmbeddedFile kPageFiles[] = {
${rows}};
const size_t kPageFileCount = ${count};
}  // namespace trireme
")
