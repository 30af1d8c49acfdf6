//! The C interface of tokenizer_c.h. Every function that can fail returns null, or an error message to be freed
//! with trireme_error_free; a panic becomes such a message, too. No logic here: template.rs renders, the
//! `tokenizers` crate does the rest, limits.rs keeps a template from crashing the process.
mod limits;
mod python;
mod template;
mod training;

use std::ffi::{c_char, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use template::Template;
use tokenizers::Tokenizer;

/// Token ids of a text and, if requested, the byte range [begin, end) of each in the text.
#[repr(C)]
pub struct Encoding {
    ids: *mut u32,
    offsets: *mut u32,
    count: usize,
}

#[repr(C)]
pub struct Text {
    data: *mut u8,
    size: usize,
}

fn text_of<'a>(data: *const c_char, size: usize) -> Result<&'a str, String> {
    if size == 0 {
        return Ok("");
    }
    let bytes = unsafe { std::slice::from_raw_parts(data as *const u8, size) };
    std::str::from_utf8(bytes).map_err(|error| format!("is not UTF-8 after byte {}", error.valid_up_to()))
}

fn into_raw<T>(values: Vec<T>) -> *mut T {
    Box::into_raw(values.into_boxed_slice()) as *mut T
}

unsafe fn drop_raw<T>(data: *mut T, count: usize) {
    if !data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, count)));
    }
}

fn guarded(work: impl FnOnce() -> Result<(), String>) -> *mut c_char {
    let why = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return std::ptr::null_mut(),
        Ok(Err(why)) => why,
        Err(_) => "failed inside the tokenizer library".to_string(),
    };
    CString::new(why.replace('\0', " ")).expect("no zero byte is left").into_raw()
}

fn give_text(out: *mut Text, text: String) {
    let bytes = text.into_bytes();
    let size = bytes.len();
    unsafe { out.write(Text { data: into_raw(bytes), size }) };
}

#[no_mangle]
pub extern "C" fn trireme_error_free(error: *mut c_char) {
    if !error.is_null() {
        drop(unsafe { CString::from_raw(error) });
    }
}

#[no_mangle]
pub extern "C" fn trireme_text_free(text: *mut Text) {
    unsafe { drop_raw((*text).data, (*text).size) };
}

#[no_mangle]
pub extern "C" fn trireme_encoding_free(encoding: *mut Encoding) {
    unsafe {
        drop_raw((*encoding).ids, (*encoding).count);
        drop_raw((*encoding).offsets, 2 * (*encoding).count);
    }
}

#[no_mangle]
pub extern "C" fn trireme_tokenizer_open(json: *const c_char, size: usize, out: *mut *mut Tokenizer) -> *mut c_char {
    guarded(|| {
        let mut tokenizer = Tokenizer::from_bytes(text_of(json, size)?).map_err(|error| error.to_string())?;
        // A file may contain the padding and truncation settings with which it was saved; lengths are decided by the caller.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        unsafe { out.write(Box::into_raw(Box::new(tokenizer))) };
        Ok(())
    })
}

/// texts: one sample per line; special: a JSON list of tokens.
#[no_mangle]
pub extern "C" fn trireme_tokenizer_train(
    texts: *const c_char,
    size: usize,
    vocabulary: usize,
    special: *const c_char,
    special_size: usize,
    out: *mut Text,
) -> *mut c_char {
    guarded(|| {
        let special: Vec<String> =
            serde_json::from_str(text_of(special, special_size)?).map_err(|error| error.to_string())?;
        let lines: Vec<&str> = text_of(texts, size)?.split_inclusive('\n').collect();
        give_text(out, training::train(&lines, vocabulary, &special)?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn trireme_tokenizer_close(tokenizer: *mut Tokenizer) {
    drop(unsafe { Box::from_raw(tokenizer) });
}

#[no_mangle]
pub extern "C" fn trireme_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: *const c_char,
    size: usize,
    add_special: bool,
    with_offsets: bool,
    out: *mut Encoding,
) -> *mut c_char {
    guarded(|| {
        let (tokenizer, text) = (unsafe { &*tokenizer }, text_of(text, size)?);
        let encoded = if with_offsets {
            tokenizer.encode(text, add_special)
        } else {
            tokenizer.encode_fast(text, add_special)
        }
        .map_err(|error| error.to_string())?;
        let ids = encoded.get_ids().to_vec();
        let count = ids.len();
        let offsets = if with_offsets {
            into_raw(encoded.get_offsets().iter().flat_map(|&(begin, end)| [begin as u32, end as u32]).collect())
        } else {
            std::ptr::null_mut()
        };
        unsafe { out.write(Encoding { ids: into_raw(ids), offsets, count }) };
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn trireme_tokenizer_decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    count: usize,
    skip_special: bool,
    out: *mut Text,
) -> *mut c_char {
    guarded(|| {
        let ids = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(ids, count) } };
        let text = unsafe { &*tokenizer }.decode(ids, skip_special).map_err(|error| error.to_string())?;
        give_text(out, text);
        Ok(())
    })
}

/// -1 if the vocabulary lacks it.
#[no_mangle]
pub extern "C" fn trireme_tokenizer_id(tokenizer: *const Tokenizer, token: *const c_char, size: usize) -> i64 {
    let Ok(token) = text_of(token, size) else { return -1 };
    unsafe { &*tokenizer }.token_to_id(token).map_or(-1, i64::from)
}

/// One more than the highest id.
#[no_mangle]
pub extern "C" fn trireme_tokenizer_vocabulary(tokenizer: *const Tokenizer) -> i64 {
    let vocabulary = unsafe { &*tokenizer }.get_vocab(true);
    vocabulary.values().max().map_or(0, |&highest| i64::from(highest) + 1)
}

#[no_mangle]
pub extern "C" fn trireme_template_open(
    source: *const c_char,
    size: usize,
    variables: *const c_char,
    variables_size: usize,
    out: *mut *mut Template,
) -> *mut c_char {
    guarded(|| {
        let template = Template::new(text_of(source, size)?, text_of(variables, variables_size)?)?;
        unsafe { out.write(Box::into_raw(Box::new(template))) };
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn trireme_template_close(template: *mut Template) {
    drop(unsafe { Box::from_raw(template) });
}

#[no_mangle]
pub extern "C" fn trireme_template_render(
    template: *const Template,
    context: *const c_char,
    size: usize,
    out: *mut Text,
) -> *mut c_char {
    guarded(|| {
        give_text(out, unsafe { &*template }.render(text_of(context, size)?)?);
        Ok(())
    })
}
