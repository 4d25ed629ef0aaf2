//! What the fuzz targets share: the model of a limiter, and the input that they are fed.
//!
//! | target | input | is right when |
//! |---|---|---|
//! | `limit` | any text, as a limit | an accepted text has a canonical form and sane decisions; a refusal says where |
//! | `decide` | a limit, and calls of a few keys | every answer is the model's |
//! | `table` | many keys in a small table, with maintenance | answers are the model's, or harsher once debts are inherited |

pub mod input;
pub mod model;
