package record

import (
	"slices"
	"strings"
	"time"
)

// maxBlocks bounds how many blocks a [Tracker] knows: blocks of deleted objects stay until [Tracker.Forget].
const maxBlocks = 4096

// Block is a handler that holds an object back: its last answer was a block or a failure.
type Block struct {
	// Call is the last call.
	Call Call `json:"lastCall"`
	// Since is when the handler was first called in the current run of calls that did not let the object through.
	Since time.Time `json:"since"`
	// Calls is the number of calls in that run.
	Calls int `json:"calls"`
}

// Change is the beginning or the end of a block.
type Change struct {
	// Block that began, or its last state before it ended.
	Block Block
	// Ended is nil if the block began. Otherwise it is the call that ended it: the handler or an administrator let the
	// object through, or the object is at another hook, which it could not reach while held.
	Ended *Call
}

// Tracker examines the calls of lifecycle hooks (Before... and After...) and finds out what holds objects back. Make it
// with [NewTracker]. It is not safe for concurrent use.
type Tracker struct {
	current map[handlerOf]*Block
}

// handlerOf identifies a handler and the object that it was called for.
type handlerOf struct {
	object             Object
	extension, handler string
}

// NewTracker makes a Tracker from the calls in a journal, oldest first.
func NewTracker(calls []Call) *Tracker {
	t := &Tracker{current: map[handlerOf]*Block{}}
	for _, c := range calls {
		t.Add(c)
	}
	return t
}

// Blocks examines the calls in a journal, oldest first, and returns what holds objects back: handlers whose last answer
// was [Blocked] or [Failure]. Deleted objects are unknown here: their blocks stay until the journal drops their calls.
func Blocks(calls []Call) []Block { return NewTracker(calls).Blocks() }

// Add processes a call and returns the blocks that it begins or ends: none while a block lasts.
func (t *Tracker) Add(c Call) []Change {
	if !OfLifecycle(c.Hook) || c.Answer == Canceled {
		return nil // a cancelled call neither begins nor ends a block
	}
	var changes []Change
	end := func(k handlerOf, b *Block) {
		delete(t.current, k)
		changes = append(changes, Change{Block: *b, Ended: &c})
	}
	for k, b := range t.current {
		if k.object == c.Object && b.Call.Hook != c.Hook {
			end(k, b)
		}
	}
	sortChanges(changes)
	k := handlerOf{c.Object, c.Extension, c.Handler}
	b, holds := t.current[k]
	switch {
	case c.Answer != Blocked && c.Answer != Failure:
		if holds {
			end(k, b)
		}
	case holds:
		b.Call = c
		b.Calls++
	case len(t.current) < maxBlocks:
		b = &Block{Call: c, Since: c.Time, Calls: 1}
		t.current[k] = b
		changes = append(changes, Change{Block: *b})
	}
	return changes
}

// Holds reports whether any handler holds an object back at a hook.
func (t *Tracker) Holds(object Object, hook string) bool {
	for k, b := range t.current {
		if k.object == object && b.Call.Hook == hook {
			return true
		}
	}
	return false
}

// Forget drops the blocks of an object that was deleted.
func (t *Tracker) Forget(object Object) {
	for k := range t.current {
		if k.object == object {
			delete(t.current, k)
		}
	}
}

// Blocks returns what holds objects back, the longest first.
func (t *Tracker) Blocks() []Block {
	blocks := make([]Block, 0, len(t.current))
	for _, b := range t.current {
		blocks = append(blocks, *b)
	}
	slices.SortFunc(blocks, order)
	return blocks
}

func sortChanges(changes []Change) {
	slices.SortFunc(changes, func(a, b Change) int { return order(a.Block, b.Block) })
}

func order(a, b Block) int {
	if order := a.Since.Compare(b.Since); order != 0 {
		return order
	}
	return strings.Compare(a.Call.Extension+"/"+a.Call.Handler, b.Call.Extension+"/"+b.Call.Handler)
}

// OfLifecycle reports whether a hook, given as group/version/Name or Name, is a lifecycle hook.
func OfLifecycle(hook string) bool {
	name := hook[strings.LastIndex(hook, "/")+1:]
	return strings.HasPrefix(name, "Before") || strings.HasPrefix(name, "After")
}
