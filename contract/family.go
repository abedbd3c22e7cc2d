package contract

import (
	"slices"
	"strings"
	"sync"
)

// Family is a group of rules about one thing.
type Family struct {
	// Name is the part of an id before the number, for example IM.
	Name string `json:"name"`
	// Title says what its rules are about.
	Title string `json:"title"`
	// Versions are what its rules speak of, the older first.
	Versions []Version `json:"versions"`
	// Elsewhere says why no test of Capstan's own code asserts each of its rules. Empty: tests do.
	Elsewhere string `json:"elsewhere,omitempty"`
}

var families = sync.OnceValue(func() []Family { return read[Family]("families") })

// Families returns all families, in the order in which rules are listed. The caller may change the slice only.
func Families() []Family { return slices.Clone(families()) }

// FamilyOf returns the family that an id names. The second result reports whether there is one.
func FamilyOf(id string) (Family, bool) {
	name, _, _ := strings.Cut(id, "-")
	i := slices.IndexFunc(families(), func(f Family) bool { return f.Name == name })
	if i < 0 {
		return Family{}, false
	}
	return families()[i], true
}
