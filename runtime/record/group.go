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

// Repeats joins calls that differ only in time and text: consecutive ones, and those that follow each other while the
// same hook is called again and again because one of its handlers blocks. Calls with answer [Success] stay separate
// where none blocks, because each has let an object through.
func Repeats(calls []Call) []Repeated {
	var runs []Repeated
	start := 0                    // where the runs of the current attempts begin
	blocking := map[string]bool{} // the handlers that block in them
	for i, c := range calls {
		if i > 0 && (calls[i-1].Hook != c.Hook || calls[i-1].Object != c.Object) {
			start = len(runs)
			clear(blocking)
		}
		by := c.Extension + "/" + c.Handler
		same := slices.IndexFunc(runs[start:], func(r Repeated) bool { return r.Call.Extension+"/"+r.Call.Handler == by })
		if same >= 0 && len(blocking) == 0 && (c.Answer == Success || runs[len(runs)-1].Call.Answer != c.Answer) {
			start = len(runs) // nothing blocked the attempt before, so this is about something new
		}
		if !join(runs[start:], c) {
			runs = append(runs, Repeated{c, 1})
		}
		if c.Answer == Success || c.Answer == Passed {
			delete(blocking, by)
		} else {
			blocking[by] = true
		}
	}
	return runs
}

// join adds a call to the run that it repeats, and reports whether there is one.
func join(runs []Repeated, c Call) bool {
	for i, r := range slices.Backward(runs) {
		if r.Call.Answer == c.Answer && r.Call.Extension == c.Extension && r.Call.Handler == c.Handler {
			runs[i] = Repeated{c, r.Times + 1}
			return true
		}
	}
	return false
}
