/* The C interface between the C++ side and src/lib.rs, the only place where the two meet. A function that
 * returns char* returns null on success, otherwise an error message to be freed with trireme_error_free.
 * Texts are UTF-8 with their size, not null-terminated. All but open and close may be called from many
 * threads at once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TriremeTokenizer TriremeTokenizer;
typedef struct TriremeTemplate TriremeTemplate;

typedef struct {
  char* data;
  size_t size;
} TriremeText;

typedef struct {
  uint32_t* ids;
  uint32_t* offsets; /* begin and end of each token in the text, in bytes; null if not requested */
  size_t count;
} TriremeEncoding;

void trireme_error_free(char* error);
void trireme_text_free(TriremeText* text);
void trireme_encoding_free(TriremeEncoding* encoding);

/* json: the text of a tokenizer.json. */
char* trireme_tokenizer_open(const char* json, size_t size, TriremeTokenizer** out);
/* Trains a byte-level BPE on texts, one sample per line; special: a JSON list of tokens. Returns the text of a
 * tokenizer.json. */
char* trireme_tokenizer_train(const char* texts, size_t size, size_t vocabulary, const char* special,
                              size_t special_size, TriremeText* out);
void trireme_tokenizer_close(TriremeTokenizer* tokenizer);
char* trireme_tokenizer_encode(const TriremeTokenizer* tokenizer, const char* text, size_t size, bool add_special,
                               bool with_offsets, TriremeEncoding* out);
char* trireme_tokenizer_decode(const TriremeTokenizer* tokenizer, const uint32_t* ids, size_t count, bool skip_special,
                               TriremeText* out);
/* -1 if the vocabulary lacks the token. */
int64_t trireme_tokenizer_id(const TriremeTokenizer* tokenizer, const char* token, size_t size);
/* One more than the highest id. */
int64_t trireme_tokenizer_vocabulary(const TriremeTokenizer* tokenizer);

/* variables: a JSON object of what every rendering sees; context: one of what a single rendering sees. */
char* trireme_template_open(const char* source, size_t size, const char* variables, size_t variables_size,
                            TriremeTemplate** out);
void trireme_template_close(TriremeTemplate* chat_template);
char* trireme_template_render(const TriremeTemplate* chat_template, const char* context, size_t size, TriremeText* out);

#ifdef __cplusplus
}
#endif
