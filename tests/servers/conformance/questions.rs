//! Questions to the client: requests of their own (2025-11-25), or parts of an answer (2026-07-28).

use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, InputRequiredResult, InputResponses, RequestStateCodec};
use serde_json::{Value, json};

use crate::fixtures::read_as;

/// What a call of a tool, or of a prompt, was given in an earlier round.
pub(crate) struct Round<'a> {
    pub(crate) answers: Option<&'a InputResponses>,
    pub(crate) state: Option<&'a str>,
    pub(crate) codec: &'a RequestStateCodec,
}

/// What comes of a round.
pub(crate) enum Outcome {
    /// More is needed.
    Asked(InputRequiredResult),
    /// What was found out, in words.
    Told(String),
}

impl Round<'_> {
    /// A tool that asks within its answer, or nothing if it does not.
    pub(crate) fn tool(
        &self,
        tool: &str,
        client: &ClientCapabilities,
    ) -> Result<Option<Outcome>, ErrorData> {
        let name = || elicitation("What is your name?", "name", "string");
        Ok(Some(match tool {
            "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
                match self.field("user_name", "name") {
                    Some(name) => Outcome::Told(format!("Hello, {name}!")),
                    None => asked(json!({ "user_name": name() }), None)?,
                }
            }
            "test_input_required_result_sampling" => match self.answer("capital_question") {
                Some(answer) => Outcome::Told(answer.to_string()),
                None => asked(
                    json!({ "capital_question": sample("What is the capital of France?", 100) }),
                    None,
                )?,
            },
            "test_input_required_result_list_roots" => match self.answer("client_roots") {
                Some(roots) => Outcome::Told(roots.to_string()),
                None => asked(
                    json!({ "client_roots": { "method": "roots/list", "params": {} } }),
                    None,
                )?,
            },
            "test_input_required_result_request_state"
            | "test_input_required_result_tampered_state" => {
                if let (Some(_), Some(_)) = (self.opened()?, self.answer("confirm")) {
                    Outcome::Told("state-ok".to_owned())
                } else {
                    let question = elicitation("Please confirm", "ok", "boolean");
                    asked(
                        json!({ "confirm": question }),
                        Some(self.codec.seal(b"confirm")),
                    )?
                }
            }
            "test_input_required_result_multiple_inputs" => {
                let answers = ["user_name", "greeting", "client_roots"].map(|key| self.answer(key));
                if self.opened()?.is_some() && answers.iter().all(Option::is_some) {
                    Outcome::Told(json!(answers).to_string())
                } else {
                    let questions = json!({
                        "user_name": name(),
                        "greeting": sample("Generate a greeting", 50),
                        "client_roots": { "method": "roots/list", "params": {} },
                    });
                    asked(questions, Some(self.codec.seal(b"several")))?
                }
            }
            "test_input_required_result_multi_round" => self.several_rounds()?,
            "test_input_required_result_capabilities" => {
                let mut questions = serde_json::Map::new();
                if client.elicitation.is_some() {
                    questions.insert("user_name".to_owned(), name());
                }
                if client.sampling.is_some() {
                    questions.insert("greeting".to_owned(), sample("Generate a greeting", 50));
                }
                if questions.is_empty() || questions.keys().any(|key| self.answer(key).is_some()) {
                    Outcome::Told("There is nothing more to ask.".to_owned())
                } else {
                    asked(Value::Object(questions), None)?
                }
            }
            _ => return Ok(None),
        }))
    }

    /// The prompt that asks within its answer.
    pub(crate) fn prompt(&self) -> Result<Outcome, ErrorData> {
        if let Some(context) = self.field("user_context", "context") {
            Ok(Outcome::Told(format!("The context is: {context}")))
        } else {
            let question = elicitation("What context should the prompt use?", "context", "string");
            asked(json!({ "user_context": question }), None)
        }
    }

    fn several_rounds(&self) -> Result<Outcome, ErrorData> {
        match self.opened()? {
            None => {
                let question = elicitation("Step 1: What is your name?", "name", "string");
                asked(json!({ "step1": question }), Some(self.codec.seal(b"")))
            }
            Some(name) if name.is_empty() => {
                let question =
                    elicitation("Step 2: What is your favorite color?", "color", "string");
                let name = self.field("step1", "name").unwrap_or("nobody");
                asked(
                    json!({ "step2": question }),
                    Some(self.codec.seal(name.as_bytes())),
                )
            }
            Some(name) => {
                let color = self.field("step2", "color").unwrap_or("none");
                Ok(Outcome::Told(format!(
                    "{} likes {color}.",
                    String::from_utf8_lossy(&name)
                )))
            }
        }
    }

    /// The state that came back, once it is known to be unchanged.
    fn opened(&self) -> Result<Option<Vec<u8>>, ErrorData> {
        let Some(state) = self.state else {
            return Ok(None);
        };
        let opened = self.codec.open(state);
        opened
            .map(Some)
            .map_err(|_| ErrorData::invalid_params("the request state was changed", None))
    }

    fn answer(&self, key: &str) -> Option<&Value> {
        self.answers?.get(key)
    }

    /// A part of what the user filled in.
    fn field(&self, key: &str, field: &str) -> Option<&str> {
        self.answer(key)?.get("content")?.get(field)?.as_str()
    }
}

/// A question to the user for one value.
fn elicitation(message: &str, field: &str, kind: &str) -> Value {
    let schema =
        json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": message, "requestedSchema": schema } })
}

fn sample(text: &str, most: u32) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": most } })
}

fn asked(questions: Value, state: Option<String>) -> Result<Outcome, ErrorData> {
    Ok(Outcome::Asked(InputRequiredResult::new(
        Some(read_as(questions)?),
        state,
    )))
}

/// The question with defaults.
pub(crate) fn with_defaults() -> Value {
    json!({ "type": "object", "properties": {
        "name": { "type": "string", "description": "Name", "default": "John Doe" },
        "age": { "type": "integer", "description": "Age", "default": 30 },
        "score": { "type": "number", "description": "Score", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "description": "Verified", "default": true },
    } })
}

/// The question with every kind of choice.
pub(crate) fn with_choices() -> Value {
    let titled = |word: &str| {
        json!([
            { "const": "value1", "title": format!("First {word}") },
            { "const": "value2", "title": format!("Second {word}") },
            { "const": "value3", "title": format!("Third {word}") },
        ])
    };
    json!({ "type": "object", "properties": {
        "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": ["option1", "option2", "option3"] } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    } })
}

/// The question for a user and an address.
pub(crate) fn for_user() -> Value {
    json!({
        "type": "object",
        "properties": {
            "username": { "type": "string", "description": "User's response" },
            "email": { "type": "string", "description": "User's email address" },
        },
        "required": ["username", "email"],
    })
}
