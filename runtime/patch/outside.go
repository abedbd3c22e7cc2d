package patch

import (
	"fmt"
	"strings"
)

// SameOutside reports whether two documents are equal except at or below some paths, such as "spec.template". It
// treats empty objects as absent. Use it to check that a patch changes only what it may (UH-02).
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

// withoutEmpty removes members that are empty objects.
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
