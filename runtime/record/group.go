package record

import (
	"slices"
	"strings"
)

// HookName returns the name of the hook without its group and version.
func (c Call) HookName() string { return HookName(c.Hook) }

// HookName shortens group/version/Name of a hook to Name.
func HookName(hook string) string { return hook[strings.LastIndex(hook, "/")+1:] }

// Why returns what the handler said: the error of a call that failed, else the message of its answer.
func (c Call) Why() string {
	if c.Err != nil {
		return c.Err.Error()
	}
	return c.Message
}

// Of returns the calls for the object of this namespace and name, in their order. An empty name selects all objects of
// all namespaces.
func Of(calls []Call, namespace, name string) []Call {
	found := []Call{}
	for _, c := range calls {
		if name == "" || (c.Object.Name == name && c.Object.Namespace == namespace) {
			found = append(found, c)
		}
	}
	return found
}

// Repeated is a number of calls of one handler with the same answer: a hook that blocks is called repeatedly.
type Repeated struct {
	// Call is the last one of them.
	Call Call
	// Times is how many there are.
	Times int
}

// Repeats joins calls that differ only in time and text: the calls of one hook for one object while a handler of that
// hook blocks. Calls for other objects may come between them, and so may calls of hooks that hold nothing back, such as
// GeneratePatches. Repeats joins calls of such hooks, too, until the object is at another lifecycle hook. Calls of
// hooks that can hold an object back stay separate if their answer is [Success] and no handler blocks, because each has
// let the object through.
func Repeats(calls []Call) []Repeated {
	var runs []Repeated
	objects := map[Object]map[string]*attempts{} // by hook
	for _, c := range calls {
		hooks := objects[c.Object]
		if hooks == nil {
			hooks = map[string]*attempts{}
			objects[c.Object] = hooks
		}
		a := hooks[c.Hook]
		if a != nil && a.over(runs, c) {
			a = nil
		}
		if a == nil {
			if OfLifecycle(c.Hook) {
				clear(hooks)
			}
			a = &attempts{blocking: map[string]bool{}}
			hooks[c.Hook] = a
		}
		runs = a.add(runs, c)
	}
	return runs
}

// attempts are calls of one hook for one object that belong together.
type attempts struct {
	runs     []int           // indices of their runs
	last     Answer          // of the last call
	blocking map[string]bool // the handlers that block
}

// over reports whether nothing blocked the last attempt, so that a call is about something new.
func (a *attempts) over(runs []Repeated, c Call) bool {
	again := slices.ContainsFunc(a.runs, func(i int) bool { return sameHandler(runs[i].Call, c) })
	return again && len(a.blocking) == 0 && (a.last != c.Answer || c.Answer == Success && holdsBack(c.Hook))
}

// add adds a call to the run that it repeats, or as a new run.
func (a *attempts) add(runs []Repeated, c Call) []Repeated {
	if a.last = c.Answer; c.Answer == Success || c.Answer == Passed {
		delete(a.blocking, handlerName(c))
	} else {
		a.blocking[handlerName(c)] = true
	}
	for _, i := range slices.Backward(a.runs) {
		if runs[i].Call.Answer == c.Answer && sameHandler(runs[i].Call, c) {
			runs[i] = Repeated{c, runs[i].Times + 1}
			return runs
		}
	}
	a.runs = append(a.runs, len(runs))
	return append(runs, Repeated{c, 1})
}

// holdsBack reports whether a hook's answers decide whether an object may continue.
func holdsBack(hook string) bool { return OfLifecycle(hook) || HookName(hook) == "UpdateMachine" }

func sameHandler(a, b Call) bool { return handlerName(a) == handlerName(b) }

func handlerName(c Call) string { return c.Extension + "/" + c.Handler }
