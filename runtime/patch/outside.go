package patch

import (
	"fmt"
	"strings"
)

// SameOutside tells whether two documents are the same outside of some paths, each as names with dots. Objects that
// hold nothing count as absent: the difference is one of form. It is how to see that a patch stays where it may
// (UH-02).
func SameOutside(before, after []byte, paths ...string) (bool, error) {
	from, err := decode(before)
	if err != nil {
		return false, fmt.Errorf("comparing two documents: decoding the first: %w", err)
	}
	to, err := decode(after)
	if err != nil {
		return false, fmt.Errorf("comparing two documents: decoding the second: %w", err)
	}
	for _, path := range paths {
		names := strings.Split(path, ".")
		from, to = remove(from, names), remove(to, names)
	}
	return equal(withoutEmpty(from), withoutEmpty(to)), nil
}

// withoutEmpty removes the members of objects that are objects and hold nothing.
func withoutEmpty(value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value
	}
	for name, member := range object {
		member = withoutEmpty(member)
		if inner, isObject := member.(map[string]any); isObject && len(inner) == 0 {
			delete(object, name)
		}
	}
	return object
}
