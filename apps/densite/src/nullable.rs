//! The types of values in a column: a value or NULL.

/// A value of type `T`, or NULL: `i64` and `Option<i64>`, `&str`, `String` and `Option<String>`,
/// and so on.
///
/// It is implemented for the types that [`Columns`](crate::Columns) takes, and cannot be
/// implemented elsewhere.
pub trait Nullable<T: ?Sized>: sealed::Sealed<T> {
    /// The value; `None` means NULL.
    fn value(&self) -> Option<&T>;
}

mod sealed {
    pub trait Sealed<T: ?Sized> {}
}

macro_rules! nullable {
    ($($from:ty => $to:ty, [$($generic:tt)*];)*) => { $(
        impl<$($generic)*> sealed::Sealed<$to> for $from {}
        impl<$($generic)*> Nullable<$to> for $from {
            fn value(&self) -> Option<&$to> {
                Some(self)
            }
        }
    )* };
}

nullable! {
    i64 => i64, [];
    f64 => f64, [];
    String => str, [];
    &str => str, [];
    Vec<u8> => [u8], [];
    &[u8] => [u8], [];
    [u8; N] => [u8], [const N: usize];
}

impl<const N: usize> sealed::Sealed<[u8]> for &[u8; N] {}

impl<const N: usize> Nullable<[u8]> for &[u8; N] {
    fn value(&self) -> Option<&[u8]> {
        Some(self.as_slice())
    }
}

impl<T: ?Sized, V: Nullable<T>> sealed::Sealed<T> for Option<V> {}

impl<T: ?Sized, V: Nullable<T>> Nullable<T> for Option<V> {
    fn value(&self) -> Option<&T> {
        self.as_ref().and_then(Nullable::value)
    }
}
