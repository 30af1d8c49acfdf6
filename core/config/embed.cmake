# Writes the file INPUT as a C++ array into OUTPUT; plain C++ works on every architecture.
file(READ "${INPUT}" bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REPEAT "0x..," 16 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include \"core/config/embedded.h\"
namespace trireme {
const unsigned char kConfigDescriptorSet[] = {
${bytes}
};
const int kConfigDescriptorSetSize = ${size};
}  // namespace trireme
")
