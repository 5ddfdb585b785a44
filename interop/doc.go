// Package interop has tests and no code: pawl and the Redis locks of others, on
// the same key at the same time. It is a module of its own so that nobody who
// uses pawl gets the others along with it.
//
// docs/protocol.md says which locks can share a key, and which can't.
package interop
