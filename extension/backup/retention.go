package backup

import (
	"slices"
	"time"
)

// Retention says which backups of a cluster to keep.
type Retention struct {
	// Keep is the number of newest backups to keep, at least one.
	Keep int
	// MaxAge is the maximum age of a backup; zero means no limit. The newest backup is kept whatever its age.
	MaxAge time.Duration
}

// Expired returns the backups of one cluster to remove, oldest first. If there are too many, it first removes backups
// that a newer one for the same reason supersedes. Thus a step that is blocked for days, and backed up again and again,
// does not push out the backups of earlier steps.
func (r Retention) Expired(all []Manifest, now time.Time) []Manifest {
	sorted := slices.Clone(all)
	sortByTime(sorted)
	var expired, again, once []Manifest
	for i, m := range sorted {
		newer := sorted[i+1:]
		switch {
		case len(newer) > 0 && r.MaxAge > 0 && now.Sub(m.Time) > r.MaxAge:
			expired = append(expired, m)
		case slices.ContainsFunc(newer, func(n Manifest) bool { return n.UID == m.UID && n.Reason == m.Reason }):
			again = append(again, m)
		default:
			once = append(once, m)
		}
	}
	if more := len(again) + len(once) - max(r.Keep, 1); more > 0 {
		expired = append(expired, append(again, once...)[:more]...)
	}
	sortByTime(expired)
	return expired
}

// peers returns the backups requested in the same way: by people, or by hooks. Backups by hooks do not push out those
// by people.
func peers(all []Manifest, of Manifest) []Manifest {
	return slices.DeleteFunc(slices.Clone(all), func(m Manifest) bool {
		return (m.Reason == ReasonManual) != (of.Reason == ReasonManual)
	})
}
