//! Independent tasks on several threads.

use crate::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Carries out all tasks. Each thread has a state of its own; the states are returned.
///
/// # Errors
/// The first error of a task.
pub fn run<T: Sync, S: Send + Default>(
    tasks: &[T],
    threads: usize,
    visit: impl Fn(&mut S, &T) -> Result<(), Error> + Sync,
) -> Result<Vec<S>, Error> {
    let next = AtomicUsize::new(0);
    let states = Mutex::new(Ok(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| {
                let mut state = S::default();
                let mut result = Ok(());
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    result = visit(&mut state, task);
                    if result.is_err() {
                        // The other threads find no more tasks.
                        next.store(tasks.len(), Ordering::Relaxed);
                        break;
                    }
                }
                let Ok(mut states) = states.lock() else { return };
                match (&mut *states, result) {
                    (Ok(states), Ok(())) => states.push(state),
                    (found, Err(error)) if found.is_ok() => *found = Err(error),
                    _ => {}
                }
            });
        }
    });
    states.into_inner().unwrap_or_else(|_| Err(Error::Asked("a thread panicked".into())))
}
