//! What templates written for Python expect from Python: its JSON format, its white space, its clock. Nothing here
//! knows about chats.
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use serde_json::Value as Json;

/// Python counts these four separators as white space, Rust does not.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// strip, lstrip and rstrip without an argument; everything else comes from the companion crate.
pub fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let (Some(text), true) = (value.as_str(), args.is_empty() || args[0].is_none()) {
        match name {
            "strip" => return Ok(Value::from(text.trim_matches(is_space))),
            "lstrip" => return Ok(Value::from(text.trim_start_matches(is_space))),
            "rstrip" => return Ok(Value::from(text.trim_end_matches(is_space))),
            _ => {}
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}

pub fn trim(text: String) -> String {
    text.trim_matches(is_space).to_string()
}

/// As Hugging Face defines the filter: json.dumps(value, ensure_ascii=False, indent=indent).
pub fn tojson(value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    let ensure_ascii: Option<bool> = kwargs.get("ensure_ascii")?;
    let sort_keys: Option<bool> = kwargs.get("sort_keys")?;
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    kwargs.assert_all_used()?;
    if value.kind() == ValueKind::Undefined {
        return Err(Error::new(ErrorKind::InvalidOperation, "an undefined value has no JSON"));
    }
    let json = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, format!("no JSON: {error}")))?;
    let default = if indent.is_some() { "," } else { ", " };
    let (comma, colon) = match separators.as_deref() {
        Some([comma, colon]) => (comma.clone(), colon.clone()),
        _ => (default.to_string(), ": ".to_string()),
    };
    let style = Style { indent, comma, colon, ascii: ensure_ascii == Some(true), sort: sort_keys == Some(true) };
    let mut out = String::new();
    write_json(&mut out, &json, &style, 0);
    Ok(Value::from_safe_string(out))
}

struct Style {
    indent: Option<usize>,
    comma: String,
    colon: String,
    ascii: bool,
    sort: bool,
}

fn new_line(out: &mut String, style: &Style, depth: usize) {
    if let Some(indent) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent.saturating_mul(depth)));
    }
}

fn write_json(out: &mut String, json: &Json, style: &Style, depth: usize) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() => out.push_str(&float_text(value)),
            _ => out.push_str(&number.to_string()),
        },
        Json::String(text) => write_string(out, text, style.ascii),
        Json::Array(items) if items.is_empty() => out.push_str("[]"),
        Json::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(&style.comma);
                }
                new_line(out, style, depth + 1);
                write_json(out, item, style, depth + 1);
            }
            new_line(out, style, depth);
            out.push(']');
        }
        Json::Object(entries) if entries.is_empty() => out.push_str("{}"),
        Json::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            if style.sort {
                entries.sort_by_key(|entry| entry.0);
            }
            out.push('{');
            for (i, (key, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push_str(&style.comma);
                }
                new_line(out, style, depth + 1);
                write_string(out, key, style.ascii);
                out.push_str(&style.colon);
                write_json(out, value, style, depth + 1);
            }
            new_line(out, style, depth);
            out.push('}');
        }
    }
}

fn write_string(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (ascii && !c.is_ascii()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// repr(float): the shortest digits, an exponent below 1e-4 and at or above 1e16.
pub fn float_text(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "NaN".into() } else if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').expect("{:e} writes an exponent");
    let exponent: i32 = exponent.parse().expect("{:e} writes a number after the e");
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// datetime.now().strftime(format), in local time.
pub fn strftime_now(format: String) -> Result<String, Error> {
    let format = std::ffi::CString::new(format)
        .map_err(|_| Error::new(ErrorKind::InvalidOperation, "strftime_now: a zero byte in the format"))?;
    let mut buffer = vec![0u8; 1024];
    let written = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut parts);
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &parts)
    };
    buffer.truncate(written);
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}
