package seal

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Values is the part of etcd that [Ring.Rewrite] needs.
type Values interface {
	// Keys returns the keys that begin with prefix.
	Keys(ctx context.Context, prefix string) ([]string, error)
	// Get returns the value of a key and its revision; the revision is 0 if there is none.
	Get(ctx context.Context, key string) (value []byte, revision int64, err error)
	// Replace changes the value of a key if the key still has that revision; otherwise it returns an error.
	Replace(ctx context.Context, key string, value []byte, revision int64) error
}

// Prefixes returns the prefixes of the etcd keys whose values are encrypted, in the order of Resources.
func Prefixes() []string {
	var prefixes []string
	for _, resource := range Resources {
		name, group, grouped := strings.Cut(resource, ".")
		if grouped {
			name = group + "/" + name
		}
		prefixes = append(prefixes, "/registry/"+name+"/")
	}
	return prefixes
}

// Rewrite encrypts everything with the first key of the ring and returns how many values it has changed. No API server
// may be running. Rewrite changes nothing until it has read all values; if it can't decrypt one, the error names it.
// The function rewritten, which may be nil, is called after each changed value.
//
// If the ring was never saved, Rewrite first makes sure that no value needs another key, and only then saves the ring.
// Otherwise, a new key file would take the place of one that was lost.
func (r *Ring) Rewrite(ctx context.Context, values Values, rewritten func()) (changed int, err error) {
	var all []string
	for _, prefix := range Prefixes() {
		keys, err := values.Keys(ctx, prefix)
		if err != nil {
			return 0, fmt.Errorf("listing %s: %w", prefix, err)
		}
		all = slices.Concat(all, keys)
	}
	for _, key := range all { // read everything before changing anything
		value, _, err := values.Get(ctx, key)
		if err == nil {
			_, _, err = r.reseal(value)
		}
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", key, err)
		}
	}
	if err := r.Ensure(); err != nil {
		return 0, err
	}
	for _, key := range all {
		value, revision, err := values.Get(ctx, key)
		if err != nil {
			return changed, fmt.Errorf("reading %s: %w", key, err)
		}
		sealed, differs, err := r.reseal(value)
		if err != nil {
			return changed, fmt.Errorf("encrypting %s: %w", key, err)
		}
		if !differs || revision == 0 {
			continue
		}
		if err := values.Replace(ctx, key, sealed, revision); err != nil {
			return changed, fmt.Errorf("writing %s: %w", key, err)
		}
		changed++
		if rewritten != nil {
			rewritten()
		}
	}
	return changed, nil
}
