package record

import "strings"

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

// Repeated is a run of calls of one handler with the same answer: a hook that blocks is called repeatedly.
type Repeated struct {
	// Call is the last one of the run.
	Call Call
	// Times is how many calls the run has.
	Times int
}

// Repeats joins consecutive calls that differ only in time and text. Calls with answer [Success] stay separate,
// because each has let an object through.
func Repeats(calls []Call) []Repeated {
	var runs []Repeated
	for _, c := range calls {
		if n := len(runs); n > 0 && c.repeats(runs[n-1].Call) {
			runs[n-1] = Repeated{c, runs[n-1].Times + 1}
			continue
		}
		runs = append(runs, Repeated{c, 1})
	}
	return runs
}

// repeats reports whether a call repeats the one before it.
func (c Call) repeats(last Call) bool {
	return last.Answer != Success && last.Answer == c.Answer && last.Hook == c.Hook && last.Extension == c.Extension &&
		last.Handler == c.Handler && last.Object == c.Object
}
