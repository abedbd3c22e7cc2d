package record

import (
	"slices"
	"strings"
	"time"
)

// Block is a handler that holds an object back: the last time that it was asked it blocked or failed.
type Block struct {
	// Call is the last call.
	Call Call `json:"lastCall"`
	// Since is when the handler was first asked in a row in which it did not let the object through.
	Since time.Time `json:"since"`
	// Calls is how often it was asked in that row.
	Calls int `json:"calls"`
}

// Blocks gives what holds objects back, by the calls in a journal, oldest first: handlers of lifecycle hooks (Before... and After...) whose last
// answer was [Blocked] or [Failure]. It is over when the handler lets the object through, or when the object is at another hook, which it can't be
// while it waits. An object that was deleted meanwhile is not known here: its block stays until the journal has forgotten it.
func Blocks(calls []Call) []Block {
	type handler struct {
		object             Object
		extension, handler string
	}
	current := map[handler]*Block{}
	for _, c := range calls {
		if !ofLifecycle(c.Hook) || c.Answer == Canceled {
			continue // canceled: it has said nothing
		}
		for k, b := range current {
			if k.object == c.Object && b.Call.Hook != c.Hook {
				delete(current, k)
			}
		}
		k := handler{c.Object, c.Extension, c.Handler}
		switch b := current[k]; {
		case c.Answer != Blocked && c.Answer != Failure:
			delete(current, k)
		case b == nil:
			current[k] = &Block{Call: c, Since: c.Time, Calls: 1}
		default:
			b.Call = c
			b.Calls++
		}
	}
	blocks := make([]Block, 0, len(current))
	for _, b := range current {
		blocks = append(blocks, *b)
	}
	slices.SortFunc(blocks, func(a, b Block) int {
		if order := a.Since.Compare(b.Since); order != 0 {
			return order
		}
		return strings.Compare(a.Call.Extension+"/"+a.Call.Handler, b.Call.Extension+"/"+b.Call.Handler)
	})
	return blocks
}

// ofLifecycle tells whether a hook marks a moment in the life of an object.
func ofLifecycle(hook string) bool {
	name := hook[strings.LastIndex(hook, "/")+1:]
	return strings.HasPrefix(name, "Before") || strings.HasPrefix(name, "After")
}
