//! The rows that wait, written.

use super::chunks::{Chunk, Join, Moment, Span};
use super::parts::{merged, Part};
use super::paths::Path;
use super::Projector;
use crate::named;
use rusqlite::types::ToSql;
use rusqlite::{Connection, Result, Statement};

const INSERT_TEXT: &str = "INSERT INTO text VALUES(?,?,?,?)";
const INSERT_NAMED: &str = "INSERT INTO named VALUES(?,?)";
const INSERT_SLOT: &str = "INSERT INTO slot VALUES(?,?,?,?,?,?)";
const INSERT_FAULT: &str = "INSERT INTO fault VALUES(?,?)";
const INSERT_CHECKPOINT: &str = "INSERT INTO checkpoint VALUES(?,?,?,?,?)";
const ADD_USED: &str =
    "INSERT INTO used VALUES(?,?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n";
const ADD_TALLY: &str =
    "INSERT INTO tally VALUES(?,?,?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n";
const PUT_SPAN: &str = "INSERT OR REPLACE INTO span VALUES(?,?,?,?,?,?,?,?)";
const PUT_CHUNK: &str = "INSERT OR REPLACE INTO chunk VALUES(?,?,?,?,?,?,?,?,?,?,?,?)";
const PUT_MOMENT: &str = "INSERT OR REPLACE INTO moment VALUES(?,?,?,?,?,?,?,?,?)";
const INSERT_PATH: &str = "INSERT INTO path VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
const UPDATE_PATH: &str = "UPDATE path SET numbers = ?, texts = ?, decimals = ?, unfit = ?, \
     booleans = ?, nulls = ?, objects = ?, arrays = ?, min = ?, max = ?, has_moments = ? WHERE id = ?";
const INSERT_VALUE: &str =
    "INSERT INTO value(path, chunk, part, n, scale, width, start, units, places, event) \
     VALUES(?,?,?,?,?,?,?,?,?,?)";
const READ_PARTS: &str = "SELECT scale, width, start, units, places, n FROM value \
     WHERE path = ? AND chunk = ? ORDER BY part";
const DELETE_PARTS: &str = "DELETE FROM value WHERE path = ? AND chunk = ?";

pub fn all(db: &Connection, projector: &mut Projector) -> Result<()> {
    texts(db, projector)?;
    slots(db, projector)?;
    faults(db, projector)?;
    counts(db, projector)?;
    spans(db, projector)?;
    moments(db, projector)?;
    values(db, projector)?;
    checkpoints(db, projector)
}

/// A statement that is prepared when its first row comes.
struct Rows<'a> {
    db: &'a Connection,
    sql: &'static str,
    statement: Option<Statement<'a>>,
}

impl<'a> Rows<'a> {
    fn of(db: &'a Connection, sql: &'static str) -> Self {
        Self {
            db,
            sql,
            statement: None,
        }
    }

    fn statement(&mut self) -> Result<&mut Statement<'a>> {
        match &mut self.statement {
            Some(statement) => Ok(statement),
            empty => Ok(empty.insert(self.db.prepare(self.sql)?)),
        }
    }

    fn put(&mut self, row: &[&dyn ToSql]) -> Result<()> {
        let statement = self.statement()?;
        for (place, value) in row.iter().enumerate() {
            statement.raw_bind_parameter(place + 1, value)?;
        }
        statement.raw_execute().map(drop)
    }
}

fn or_null(number: u32) -> Option<u32> {
    (number != 0).then_some(number)
}

/// One row a statement: sixteen at a time were measured to take half as long again.
fn texts(db: &Connection, projector: &Projector) -> Result<()> {
    let mut rows = Rows::of(db, INSERT_TEXT);
    let mut places = Vec::with_capacity(projector.texts.rows().len());
    for row in projector.texts.rows() {
        let value = String::from_utf8_lossy(row.value);
        rows.put(&[&row.id, &row.kind, &value.as_ref(), &row.event])?;
        places.push((named::row(row.id, value.as_bytes()), row.event));
    }
    places.sort_unstable();
    let mut rows = Rows::of(db, INSERT_NAMED);
    places
        .iter()
        .try_for_each(|(id, event)| rows.put(&[id, event]))
}

fn slots(db: &Connection, projector: &Projector) -> Result<()> {
    let mut rows = Rows::of(db, INSERT_SLOT);
    for row in projector.slots.rows() {
        let (symbol, indicator) = (or_null(row.symbol), or_null(row.indicator));
        rows.put(&[
            &row.id,
            &row.kind,
            &symbol,
            &indicator,
            &row.params,
            &row.event,
        ])?;
    }
    Ok(())
}

fn faults(db: &Connection, projector: &Projector) -> Result<()> {
    let mut rows = Rows::of(db, INSERT_FAULT);
    for (event, list) in &projector.waiting.faults {
        rows.put(&[event, list])?;
    }
    Ok(())
}

/// How often symbols and indicators are named, and the tally of types, severities and categories.
fn counts(db: &Connection, projector: &Projector) -> Result<()> {
    let waiting = &projector.waiting;
    let mut used = Rows::of(db, ADD_USED);
    for ((text, kind), n) in &waiting.used {
        used.put(&[text, kind, &(*n as i64), &waiting.event])?;
    }
    let mut tally = Rows::of(db, ADD_TALLY);
    for ((kind, severity, category), n) in &waiting.tally {
        tally.put(&[kind, severity, category, &(*n as i64), &waiting.event])?;
    }
    Ok(())
}

fn spans(db: &Connection, projector: &mut Projector) -> Result<()> {
    let mut span_rows = Rows::of(db, PUT_SPAN);
    let mut chunk_rows = Rows::of(db, PUT_CHUNK);
    let mut paths = Paths {
        new: Rows::of(db, INSERT_PATH),
        known: Rows::of(db, UPDATE_PATH),
    };
    for (kind, span) in projector.spans.iter_mut().enumerate() {
        let Some(span) = span else {
            continue;
        };
        if span.waiting.chunks.is_empty() {
            continue;
        }
        let kind = kind as i64;
        put_span(&mut span_rows, kind, span)?;
        for chunk in span.waiting.chunks.drain(..) {
            put_chunk(&mut chunk_rows, kind, &chunk)?;
        }
        for place in span.waiting.paths.drain(..) {
            paths.put(kind, &mut span.paths[place as usize])?;
        }
    }
    Ok(())
}

fn put_span(rows: &mut Rows<'_>, kind: i64, span: &Span) -> Result<()> {
    rows.put(&[
        &kind,
        &(span.n as i64),
        &(span.chunks() as i64),
        &span.min_ts,
        &span.max_ts,
        &span.is_sorted,
        &(span.unlisted as i64),
        &span.event,
    ])
}

fn put_chunk(rows: &mut Rows<'_>, kind: i64, chunk: &Chunk) -> Result<()> {
    let [errors, warnings, infos, debugs] = chunk.severities.map(|count| count as i64);
    rows.put(&[
        &kind,
        &(chunk.number as i64),
        &(chunk.n as i64),
        &chunk.min_ts,
        &chunk.max_ts,
        &chunk.is_sorted,
        &chunk.event,
        &chunk.last,
        &errors,
        &warnings,
        &infos,
        &debugs,
    ])
}

struct Paths<'a> {
    new: Rows<'a>,
    known: Rows<'a>,
}

impl Paths<'_> {
    fn put(&mut self, kind: i64, path: &mut Path) -> Result<()> {
        let counts = path.counts;
        let counts = [
            counts.numbers,
            counts.texts,
            counts.decimals,
            counts.unfit,
            counts.flags,
            counts.nulls,
            counts.objects,
            counts.lists,
        ]
        .map(|count| count as i64);
        let min = path.least.as_ref().map(|least| least.text());
        let max = path.greatest.as_ref().map(|greatest| greatest.text());
        let mut row: Vec<&dyn ToSql> = Vec::with_capacity(16);
        if path.is_stored {
            row.extend(counts.iter().map(|count| count as &dyn ToSql));
            row.extend([&min as &dyn ToSql, &max, &path.has_moments, &path.id]);
            self.known.put(&row)?;
        } else {
            row.extend([&path.id as &dyn ToSql, &kind, &path.text]);
            row.extend(counts.iter().map(|count| count as &dyn ToSql));
            row.extend([&min as &dyn ToSql, &max, &path.sample]);
            row.extend([&path.has_moments as &dyn ToSql, &path.event]);
            self.new.put(&row)?;
        }
        path.is_stored = true;
        path.is_changed = false;
        Ok(())
    }
}

fn moments(db: &Connection, projector: &Projector) -> Result<()> {
    let mut rows = Rows::of(db, PUT_MOMENT);
    for moment in &projector.waiting.moments {
        put_moment(&mut rows, moment)?;
    }
    Ok(())
}

fn put_moment(rows: &mut Rows<'_>, moment: &Moment) -> Result<()> {
    rows.put(&[
        &moment.path,
        &(moment.chunk as i64),
        &(moment.n as i64),
        &moment.scale,
        &moment.total,
        &moment.squares,
        &moment.min,
        &moment.max,
        &moment.event,
    ])
}

fn values(db: &Connection, projector: &Projector) -> Result<()> {
    let waiting = &projector.waiting;
    let mut rows = Rows::of(db, INSERT_VALUE);
    for value in &waiting.values {
        let at = (value.path, value.chunk as i64, value.part);
        put_part(&mut rows, at, &value.numbers, value.event)?;
    }
    let mut reading = Rows::of(db, READ_PARTS);
    let mut deleting = Rows::of(db, DELETE_PARTS);
    for join in &waiting.joins {
        let whole = merged(&parts_of(reading.statement()?, join)?);
        let (path, chunk) = (join.path, join.chunk as i64);
        deleting.put(&[&path, &chunk])?;
        put_part(&mut rows, (path, chunk, 0), &whole, join.event)?;
    }
    Ok(())
}

fn put_part(rows: &mut Rows<'_>, at: (i64, i64, u32), part: &Part, event: i64) -> Result<()> {
    rows.put(&[
        &at.0,
        &at.1,
        &at.2,
        &(part.n as i64),
        &part.scale,
        &(part.width as i64),
        &part.start,
        &part.units,
        &part.places,
        &event,
    ])
}

fn parts_of(reading: &mut Statement<'_>, join: &Join) -> Result<Vec<Part>> {
    let rows = reading.query_map((join.path, join.chunk as i64), |row| {
        Ok(Part {
            scale: row.get(0)?,
            width: row.get::<_, i64>(1)? as usize,
            start: row.get(2)?,
            units: row.get(3)?,
            places: row.get(4)?,
            n: row.get::<_, i64>(5)? as usize,
        })
    })?;
    rows.collect()
}

fn checkpoints(db: &Connection, projector: &Projector) -> Result<()> {
    let mut rows = Rows::of(db, INSERT_CHECKPOINT);
    for row in projector.orders.rows() {
        rows.put(&[
            &row.event,
            &row.ts,
            &(row.n as i64),
            &row.is_sorted,
            &row.open,
        ])?;
    }
    Ok(())
}
