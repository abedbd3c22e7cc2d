package hook

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Catalog holds the hooks that a process knows. It is immutable, so it may be shared freely.
type Catalog struct {
	byID       map[ID]*Descriptor
	byFunction map[uintptr]*Descriptor
	older      map[ID]*Conversion
	facts      map[ID]Facts
}

// Registration is an entry of a catalog: a [Hook], or the result of [Serves] or [About].
type Registration interface {
	register(*builder) error
}

type builder struct {
	catalog *Catalog
	paths   map[string]ID
	links   []*Conversion
}

// NewCatalog builds a catalog. The error names every inconsistency: invalid names, a hook that occurs twice, two
// versions of a hook without a conversion between them, facts that break rules 3 and 4 of the contract.
func NewCatalog(registrations ...Registration) (*Catalog, error) {
	b := &builder{
		catalog: &Catalog{
			byID: map[ID]*Descriptor{}, byFunction: map[uintptr]*Descriptor{}, older: map[ID]*Conversion{},
			facts: map[ID]Facts{},
		},
		paths: map[string]ID{},
	}
	var errs []error
	for _, r := range registrations {
		if r == nil {
			errs = append(errs, errors.New("a registration is nil"))
			continue
		}
		if err := r.register(b); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, b.checkVersions()...)
	errs = append(errs, b.checkFacts()...)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("building a catalog of hooks: %w", err)
	}
	return b.catalog, nil
}

func (b *builder) add(d *Descriptor) error {
	if err := checkID(d.ID); err != nil {
		return err
	}
	path := d.ID.Path("")
	if other, taken := b.paths[path]; taken {
		return fmt.Errorf("hooks %s and %s have the same path %s: register each hook once", other, d.ID, path)
	}
	if d.function != 0 {
		if other, taken := b.catalog.byFunction[d.function]; taken {
			return fmt.Errorf("hooks %s and %s are the same function: register it once", other.ID, d.ID)
		}
		b.catalog.byFunction[d.function] = d
	}
	b.paths[path] = d.ID
	b.catalog.byID[d.ID] = d
	return nil
}

// checkVersions checks that each family has one newest version, and that the others convert to it.
func (b *builder) checkVersions() []error {
	var errs []error
	for _, link := range b.links {
		newest, older := link.newest.ID, link.older.ID
		switch {
		case b.catalog.byID[newest] != link.newest:
			errs = append(errs, fmt.Errorf("hook %s is served as %s, but is not in the catalog itself: register it too",
				newest, older))
		case b.catalog.older[newest] != nil:
			errs = append(errs,
				fmt.Errorf("hook %s is served as %s, but is an older version itself: convert from the newest version",
					newest, older))
		}
	}
	newest := map[Family]ID{}
	for _, d := range b.catalog.All() {
		if b.catalog.older[d.ID] != nil {
			continue
		}
		if other, taken := newest[d.ID.Family()]; taken {
			errs = append(errs,
				fmt.Errorf("hooks %s and %s are versions of one hook: say with hook.Serves how the older one is converted",
					other, d.ID))
			continue
		}
		newest[d.ID.Family()] = d.ID
	}
	return errs
}

func checkID(id ID) error {
	if problems := validation.IsDNS1123Subdomain(id.Group); len(problems) > 0 {
		return fmt.Errorf("hook %s: group %q is not valid: %s", id, id.Group, problems[0])
	}
	if problems := validation.IsDNS1035Label(id.Version); len(problems) > 0 {
		return fmt.Errorf("hook %s: version %q is not valid: %s", id, id.Version, problems[0])
	}
	if problems := validation.IsCIdentifier(id.Name); len(problems) > 0 {
		return fmt.Errorf("hook %s: name %q is not valid: %s", id, id.Name, problems[0])
	}
	return nil
}

// Lookup finds a hook by what callers pass for it: a [Hook], or the function that Cluster API publishes for the hook.
func (c *Catalog) Lookup(hook any) (*Descriptor, error) {
	if typed, ok := hook.(interface{ Descriptor() *Descriptor }); ok {
		if d := typed.Descriptor(); d != nil && c.byID[d.ID] == d {
			return d, nil
		} else if d != nil {
			return nil, fmt.Errorf("hook %s is not in the catalog: register it with hook.NewCatalog", d.ID)
		}
		return nil, errors.New("the hook has no name: make it with hook.Define or hook.Of")
	}
	value := reflect.ValueOf(hook)
	if value.Kind() != reflect.Func || value.IsNil() {
		return nil, fmt.Errorf("a hook can't be a %T: pass a hook.Hook, or the function that defines it", hook)
	}
	d, ok := c.byFunction[value.Pointer()]
	if !ok {
		return nil, fmt.Errorf("the hook of function type %T is not in the catalog: register it with hook.Of", hook)
	}
	return d, nil
}

// Get finds a hook by its name.
func (c *Catalog) Get(id ID) (*Descriptor, bool) {
	d, ok := c.byID[id]
	return d, ok
}

// All returns the hooks, sorted by name.
func (c *Catalog) All() []*Descriptor {
	all := make([]*Descriptor, 0, len(c.byID))
	for _, d := range c.byID {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *Descriptor) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return all
}
