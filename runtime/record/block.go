package record

import (
	"slices"
	"strings"
	"time"
)

// maxBlocks bounds how many blocks a [Tracker] knows: those of objects that are gone stay until somebody forgets them.
const maxBlocks = 4096

// Block is a handler that holds an object back: the last time that it was asked it blocked or failed.
type Block struct {
	// Call is the last call.
	Call Call `json:"lastCall"`
	// Since is when the handler was first asked in a row in which it did not let the object through.
	Since time.Time `json:"since"`
	// Calls is how often it was asked in that row.
	Calls int `json:"calls"`
}

// Change is a block that has begun or ended.
type Change struct {
	// Block that has begun, or as it was before it ended.
	Block Block
	// Ended is nil if it has begun; else the call that ended it: the handler has let the object through, an administrator
	// has, or the object is at another hook, which it can't be while it waits.
	Ended *Call
}

// Tracker knows what holds objects back, by the calls of lifecycle hooks (Before... and After...) that it is told of.
// Make it with [NewTracker]. It is not for several goroutines.
type Tracker struct {
	current map[handlerOf]*Block
}

// handlerOf is a handler that is asked about an object.
type handlerOf struct {
	object             Object
	extension, handler string
}

// NewTracker makes a Tracker that knows the calls in a journal, oldest first.
func NewTracker(calls []Call) *Tracker {
	t := &Tracker{current: map[handlerOf]*Block{}}
	for _, c := range calls {
		t.Add(c)
	}
	return t
}

// Blocks gives what holds objects back, by the calls in a journal, oldest first: handlers whose last answer was
// [Blocked] or [Failure]. An object that was deleted meanwhile is not known here: its block stays until the journal has
// forgotten it.
func Blocks(calls []Call) []Block { return NewTracker(calls).Blocks() }

// Add takes a call, and gives what has begun or ended by it: nothing, while a block lasts.
func (t *Tracker) Add(c Call) []Change {
	if !OfLifecycle(c.Hook) || c.Answer == Canceled {
		return nil // canceled: it has said nothing
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

// Holds tells whether any handler holds an object back at a hook.
func (t *Tracker) Holds(object Object, hook string) bool {
	for k, b := range t.current {
		if k.object == object && b.Call.Hook == hook {
			return true
		}
	}
	return false
}

// Forget says that an object is gone.
func (t *Tracker) Forget(object Object) {
	for k := range t.current {
		if k.object == object {
			delete(t.current, k)
		}
	}
}

// Blocks gives what holds objects back, the longest first.
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

// OfLifecycle tells whether a hook, group/version/Name or Name alone, marks a moment in the life of an object.
func OfLifecycle(hook string) bool {
	name := hook[strings.LastIndex(hook, "/")+1:]
	return strings.HasPrefix(name, "Before") || strings.HasPrefix(name, "After")
}
