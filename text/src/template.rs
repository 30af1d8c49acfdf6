//! A chat template as Hugging Face renders it: Jinja2 with trimmed blocks, loop controls, Python's methods on strings
//! and dicts, raise_exception, strftime_now, tojson, and the {% generation %} block.
use crate::limits::{within, Limits};
use crate::python;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{context, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use std::sync::OnceLock;
use std::time::Duration;

const NAME: &str = "chat template";
/// The longest templates of known models have 30 KB.
const LONGEST_SOURCE: usize = 128 << 10;
/// Instructions per rendering. A conversation of ten thousand messages takes a few million.
const MOST_STEPS: u64 = 50_000_000;
/// The parser descends once per operator, so a long source may be deep; the stack is committed only as it is used.
const COMPILE: Limits = Limits { stack_bytes: 256 << 20, memory_bytes: 512 << 20, time: Duration::from_secs(60) };
const RENDER: Limits = Limits { stack_bytes: 16 << 20, memory_bytes: 512 << 20, time: Duration::from_secs(60) };

pub struct Template {
    environment: Environment<'static>,
    variables: Value,
    /// Why it is no longer rendered: each time it exceeds its limits leaks memory.
    refused: OnceLock<String>,
}

impl Template {
    /// `variables`: a JSON object visible to every rendering, such as bos_token.
    pub fn new(source: &str, variables: &str) -> Result<Self, String> {
        if source.len() > LONGEST_SOURCE {
            return Err(format!("has {} bytes; at most {LONGEST_SOURCE} are read", source.len()));
        }
        within(&COMPILE, || Self::compile(source, variables))?
    }

    fn compile(source: &str, variables: &str) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| one_line(&error))?);
        environment.set_fuel(Some(MOST_STEPS));
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_unknown_method_callback(python::method);
        environment.set_formatter(|out, state, value| {
            if value.is_none() {
                return Ok(out.write_str("None")?);
            }
            match bool::try_from(value.clone()) {
                Ok(truth) if value.kind() == minijinja::value::ValueKind::Bool => {
                    Ok(out.write_str(if truth { "True" } else { "False" })?)
                }
                _ => minijinja::escape_formatter(out, state, value),
            }
        });
        environment.add_filter("tojson", python::tojson);
        environment.add_filter("trim", python::trim);
        environment.add_function("strftime_now", python::strftime_now);
        environment.add_function("raise_exception", raise_exception);
        environment.add_filter("generation_begin", |state: &State, _: Value| generation_mark(state, 0));
        environment.add_filter("generation_end", |state: &State, _: Value| generation_mark(state, 1));
        environment.add_template_owned(NAME, with_generation_marks(source)).map_err(|error| one_line(&error))?;
        let variables: serde_json::Value = serde_json::from_str(variables).map_err(|error| error.to_string())?;
        Ok(Template { environment, variables: Value::from(Serde(variables)), refused: OnceLock::new() })
    }

    /// `context`: a JSON object with messages, add_generation_prompt, tools and other template variables.
    pub fn render(&self, context: &str) -> Result<String, String> {
        if let Some(why) = self.refused.get() {
            return Err(why.clone());
        }
        within(&RENDER, || self.render_here(context)).map_err(|why| self.refused.get_or_init(|| why).clone())?
    }

    fn render_here(&self, context: &str) -> Result<String, String> {
        let context: serde_json::Value = serde_json::from_str(context).map_err(|error| error.to_string())?;
        let template = self.environment.get_template(NAME).map_err(|error| one_line(&error))?;
        let context = Value::from(Serde(context));
        template.render(context! { ..context, ..self.variables.clone() }).map_err(|error| one_line(&error))
    }
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// generation_marks[place] if the context has them: they surround what the template marks as written by the model.
fn generation_mark(state: &State, place: usize) -> Result<Value, Error> {
    let marks = state.lookup("generation_marks").unwrap_or_default();
    if marks.is_undefined() {
        return Ok(Value::from(""));
    }
    marks.get_item_by_index(place)
}

/// {% generation %} is a Hugging Face extension. A filter over nothing, with the same white space around it, writes
/// the mark in its place; a call block would hide some variables of the template from its body.
fn with_generation_marks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(begin) = rest.find("{%") {
        let Some(length) = rest[begin..].find("%}") else { break };
        let (tag, inner) = (&rest[begin..begin + length + 2], &rest[begin + 2..begin + length]);
        out.push_str(&rest[..begin]);
        let word = inner.trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        let filter = match word {
            "generation" => "filter generation_begin %}{% endfilter",
            "endgeneration" => "filter generation_end %}{% endfilter",
            _ => word,
        };
        out.push_str(&if filter == word { tag.to_string() } else { tag.replacen(word, filter, 1) });
        rest = &rest[begin + length + 2..];
    }
    out.push_str(rest);
    out
}

fn one_line(error: &Error) -> String {
    let place = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    let why = match error.kind() {
        ErrorKind::OutOfFuel => format!("takes more than {MOST_STEPS} steps; is there an endless loop?"),
        kind => error.detail().map(str::to_string).unwrap_or_else(|| kind.to_string()),
    };
    format!("{place}{why}").replace('\n', " ")
}
