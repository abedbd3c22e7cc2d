package backup

import (
	"slices"
	"time"
)

// Retention says what is kept of each cluster.
type Retention struct {
	// Keep is how many are kept, the newest; at least one.
	Keep int
	// MaxAge is for how long; zero means for ever. The newest one is kept whatever its age.
	MaxAge time.Duration
}

// Expired gives the backups of one cluster that are to be removed, oldest first. When there are too many, those go
// first that were taken again for the same reason: a step that something holds for days is backed up again and again,
// and takes nothing from earlier steps.
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

// peers gives the backups that were asked for in the same way as this one. Those that people took are not removed
// because hooks took others.
func peers(all []Manifest, of Manifest) []Manifest {
	return slices.DeleteFunc(slices.Clone(all), func(m Manifest) bool {
		return (m.Reason == ReasonManual) != (of.Reason == ReasonManual)
	})
}
