package fenceredis

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
)

// maxWords is how many words a command may have: a script can't take many more.
const maxWords = 4000

// A Reply is the answer to a command.
type Reply struct {
	// Value is what the server said, once the Do has returned nil: an int64, a
	// string, an []any of these, or nil.
	Value any
}

// Queue adds a command to the write of the [Guard.Do] that ctx is inside of: its
// words, which are strings, ints, int64s and uint64s. Keys are all keys among them,
// which a cluster has to know. Queue sends nothing, and so a command can't use what
// another returns; it can be called concurrently.
//
// Outside of a Do, or when its write has ended, Queue panics: the command would be
// lost.
func Queue(ctx context.Context, keys []string, words ...any) *Reply {
	q, ok := ctx.Value(queueKey{}).(*queue)
	if !ok {
		panic("fenceredis: Queue is called outside of a Do")
	}
	return q.add(keys, words)
}

type queueKey struct{}

// A queue has the commands of one write.
type queue struct {
	mu       sync.Mutex
	closed   bool // guarded by mu
	keys     []string
	commands [][]any
	replies  []*Reply
}

func (q *queue) add(keys []string, words []any) *Reply {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		panic("fenceredis: Queue is called after the write has ended")
	}
	r := new(Reply)
	q.keys = append(q.keys, keys...)
	q.commands = append(q.commands, words)
	q.replies = append(q.replies, r)
	return r
}

// close ends the queue, and returns what the script is to be given.
func (q *queue) close(resource string, token pawl.Token) (keys []string, args []any, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	mode := "x"
	if token.Shared {
		mode = "s"
	}
	keys, args = append([]string{mark(resource)}, q.keys...), []any{token.Key, mode, token.Number}
	for _, words := range q.commands {
		if len(words) == 0 || len(words) > maxWords {
			return nil, nil, &pawl.FieldError{Field: "words", Why: fmt.Sprintf("are %d: a command has 1 to %d", len(words), maxWords)}
		}
		args = append(append(args, len(words)), words...)
	}
	return keys, args, nil
}

// answered takes the script's answer.
func (q *queue) answered(answer any, resource string, token pawl.Token) error {
	values, _ := answer.([]any)
	word := func(i int) string {
		if i >= len(values) {
			return ""
		}
		s, _ := values[i].(string)
		return s
	}
	switch word(0) {
	case "done":
		if len(values) == 1+len(q.replies) {
			for i, r := range q.replies {
				r.Value = values[1+i]
			}
			return nil
		}
	case "stale":
		if highest, err := pawl.ParseToken(token.Key + ":" + word(1) + ":" + word(2)); err == nil {
			return &fence.StaleError{Resource: resource, Token: token, Highest: highest}
		}
	case "other":
		return &fence.OtherLockError{Resource: resource, Token: token, Key: word(1)}
	}
	return errors.New("fenceredis: the server's answer is not the script's")
}
