package redis

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
)

//go:embed scripts/*.lua
var scripts embed.FS

// A script is one operation, as the server runs it.
type script struct{ name, source, sha string }

// The scripts. Nothing changes them.
var (
	acquireScript   = load("acquire.lua")
	renewScript     = load("renew.lua")
	releaseScript   = load("release.lua")
	revokeScript    = load("revoke.lua")
	inspectScript   = load("inspect.lua")
	bootstrapScript = load("bootstrap.lua")
	factsScript     = load("facts.lua")
	checkScript     = load("check.lua")
)

func load(name string) *script {
	source, err := scripts.ReadFile("scripts/" + name)
	if err != nil {
		panic(err) // embedded: it is there or the package does not build
	}
	sum := sha1.Sum(source)
	return &script{name: name, source: string(source), sha: hex.EncodeToString(sum[:])}
}
