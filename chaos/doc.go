// Package chaos has no code but its tests: it checks what clients of a lock saw
// against a model of the lock and of the resource that it guards.
package chaos
