package contract

import (
	"slices"
	"strings"
	"sync"
)

// Family is a group of rules about one subject.
type Family struct {
	// Name is the part of an id before the number, for example IM.
	Name string `json:"name"`
	// Title describes what its rules are about.
	Title string `json:"title"`
	// Versions are the versions its rules distinguish, older first.
	Versions []Version `json:"versions"`
	// Elsewhere says why Capstan's own tests leave some rules of the family out. It is empty if they cover all rules.
	Elsewhere string `json:"elsewhere,omitempty"`
}

var families = sync.OnceValue(func() []Family { return read[Family]("families") })

// Families returns all families in listing order. The caller may change only the slice itself.
func Families() []Family { return slices.Clone(families()) }

// FamilyOf returns the family of a rule id. The second result reports whether there is one.
func FamilyOf(id string) (Family, bool) {
	name, _, _ := strings.Cut(id, "-")
	i := slices.IndexFunc(families(), func(f Family) bool { return f.Name == name })
	if i < 0 {
		return Family{}, false
	}
	return families()[i], true
}
