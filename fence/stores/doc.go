// Package stores tests the guards of package fence on real databases, which the
// tests start. Its module brings their clients, and nobody's program needs it.
package stores
