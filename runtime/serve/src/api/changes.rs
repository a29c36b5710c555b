//! Changes of what is known: each is queued, and answered with its job.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use orco_runtime::learner::AnswerScope;
use orco_runtime::state::Balance;
use orco_runtime::state::history::EntryId;
use orco_runtime::state::label;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Value, json};

use super::jobs::queued;
use super::{JsonBody, NewLabel, Path, Query, blocking, flag, null_as_default, usable_label};
use crate::changes::{BaseClassChoice, ChangeRequest};
use crate::refusal::{ErrorCode, Refusal};
use crate::service::Service;

/// What is learned.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnRequest {
    label: String,
    #[serde(default, deserialize_with = "null_as_default")]
    base: BaseClassChoice,
}

/// `POST /api/v1/learn`
///
/// # Errors
/// [`Refusal`] if there are no shots, no free targets, or too many changes wait.
pub async fn learn(
    State(service): State<Arc<Service>>,
    JsonBody(LearnRequest { label, base }): JsonBody<LearnRequest>,
) -> Result<Response, Refusal> {
    Ok(queued(&service.learn(&usable_label(&label)?, base)?))
}

/// Which classes are answered.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswersRequest {
    answers: String,
}

/// `POST /api/v1/answers`: kept beside the state, for the next start too unless the settings name another scope.
///
/// # Errors
/// [`Refusal`] if there is no such scope, it cannot be kept, or too many requests wait.
pub async fn answers(
    State(service): State<Arc<Service>>,
    JsonBody(AnswersRequest { answers }): JsonBody<AnswersRequest>,
) -> Result<Json<Value>, Refusal> {
    let Some(scope) = AnswerScope::named(&answers) else {
        let names = AnswerScope::CHOICES.map(AnswerScope::name).join(", ");
        return Err(Refusal::bad_request(format!("answers must be one of {names}")));
    };
    let kept = service.scope.clone();
    blocking(move || kept.keep(scope)).await?.map_err(|error| Refusal::storage(&error))?;
    service.answers.set_scope(scope).await?;
    Ok(Json(json!({ "answers": answers, "learned_only": service.answers.knowledge().is_learned_only })))
}

/// `PATCH /api/v1/classes/{label}`
///
/// # Errors
/// [`Refusal`] if no learned class has the label, the new one cannot be used, or too many changes wait.
pub async fn rename(
    State(service): State<Arc<Service>>,
    Path(from): Path<String>,
    JsonBody(NewLabel { label }): JsonBody<NewLabel>,
) -> Result<Response, Refusal> {
    let from = learned_label(&service, &from)?;
    let to = usable_label(&label)?;
    if service.answers.knowledge().class(&to).is_ok() {
        let sentence = format!("\"{to}\" is known already; choose another label");
        return Err(Refusal::new(ErrorCode::LabelTaken, sentence).with("label", to));
    }
    Ok(queued(&service.changes().request(ChangeRequest::Rename { from, to })?))
}

/// Whether a class is forgotten together with its past.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetQuery {
    #[serde(default, deserialize_with = "flag")]
    purge: bool,
}

/// `DELETE /api/v1/classes/{label}`; with `?purge=true` the class's past goes with it, also that of a class that was
/// forgotten before.
///
/// # Errors
/// [`Refusal`] if no learned class has the label, or too many changes wait. Whether a class ever had it, only the job
/// that purges can say.
pub async fn forget(
    State(service): State<Arc<Service>>,
    Path(label): Path<String>,
    Query(ForgetQuery { purge }): Query<ForgetQuery>,
) -> Result<Response, Refusal> {
    let known = service.answers.knowledge();
    let change = match (purge, learned_label(&service, &label)) {
        (false, label) => ChangeRequest::Forget { label: label? },
        (true, Ok(label)) => ChangeRequest::Purge { label },
        (true, Err(_)) if known.class(&label::normal(&label)).is_err() => {
            ChangeRequest::Purge { label: usable_label(&label)? }
        }
        (true, Err(refusal)) => return Err(refusal),
    };
    Ok(queued(&service.changes().request(change)?))
}

/// The label of a learned class.
pub(crate) fn learned_label(service: &Service, label: &str) -> Result<String, Refusal> {
    let known = service.answers.knowledge();
    let index = known.class(&label::normal(label))?;
    if index < known.base_classes {
        let sentence = format!("\"{label}\" came with the bundle; only learned classes can be changed or exported");
        return Err(Refusal::new(ErrorCode::BaseClass, sentence).with("label", label));
    }
    Ok(known.classes[index].label.clone())
}

/// What is undone: the last change, whichever it is or if the last entry is a certain one, or all after an entry.
/// Entries are named by their ids.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoRequest {
    #[serde(default, deserialize_with = "entry_id")]
    entry: Option<EntryId>,
    #[serde(default, deserialize_with = "entry_id")]
    last: Option<EntryId>,
}

/// `POST /api/v1/undo`
///
/// # Errors
/// [`Refusal`] if nothing is remembered, both are named, or too many changes wait.
pub async fn undo(
    State(service): State<Arc<Service>>,
    JsonBody(UndoRequest { entry, last }): JsonBody<UndoRequest>,
) -> Result<Response, Refusal> {
    let known = service.answers.knowledge();
    let change = match (entry, last) {
        (Some(_), Some(_)) => {
            return Err(Refusal::bad_request("\"entry\" is where to go back to, \"last\" what to undo"));
        }
        (None, _) if known.timeline.earlier().is_empty() => {
            return Err(Refusal::new(ErrorCode::NothingToUndo, "there is nothing to undo"));
        }
        (None, last) => ChangeRequest::Undo { last },
        (Some(entry), None) if known.history.iter().any(|known| known.id() == entry) => ChangeRequest::UndoTo { entry },
        (Some(entry), None) => {
            let sentence = format!("there is no entry {entry} in the history, or not any more");
            return Err(Refusal::new(ErrorCode::UnknownEntry, sentence).with("entry", entry.number));
        }
    };
    Ok(queued(&service.changes().request(change)?))
}

/// What is redone: the change that was undone last, whichever it is or if the last entry is a certain one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedoRequest {
    #[serde(default, deserialize_with = "entry_id")]
    last: Option<EntryId>,
}

/// `POST /api/v1/redo`
///
/// # Errors
/// [`Refusal`] if nothing was undone, or too many changes wait.
pub async fn redo(
    State(service): State<Arc<Service>>,
    JsonBody(RedoRequest { last }): JsonBody<RedoRequest>,
) -> Result<Response, Refusal> {
    if service.answers.knowledge().timeline.later().is_empty() {
        return Err(Refusal::new(ErrorCode::NothingToRedo, "nothing was undone since the last change"));
    }
    Ok(queued(&service.changes().request(ChangeRequest::Redo { last })?))
}

/// The id of an entry, if there is one.
fn entry_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<EntryId>, D::Error> {
    let Some(value) = Option::<Value>::deserialize(deserializer)? else { return Ok(None) };
    let id = value.as_str().and_then(|text| text.parse().ok());
    id.map(Some).ok_or_else(|| {
        // The decoder adds the place, as in " at line 1 column 10".
        D::Error::custom(format!(
            "send the \"id\" that GET /api/v1/history gives, a string such as \"3-5f0c2a91d3b84e67\" (numbers are not \
             taken, since in a state that was restored other entries have them): {value} is no id of an entry"
        ))
    })
}

/// The balance to be set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BalanceRequest {
    balance: String,
}

/// `POST /api/v1/balance`
///
/// # Errors
/// [`Refusal`] if there is no such setting, or too many changes wait.
pub async fn balance(
    State(service): State<Arc<Service>>,
    JsonBody(BalanceRequest { balance }): JsonBody<BalanceRequest>,
) -> Result<Response, Refusal> {
    let Some(balance) = Balance::named(&balance) else {
        let names = Balance::ALL.map(Balance::name).join(", ");
        return Err(Refusal::bad_request(format!("the balance must be one of {names}")));
    };
    Ok(queued(&service.changes().request(ChangeRequest::Balance { balance })?))
}
