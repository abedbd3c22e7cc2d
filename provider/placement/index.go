package placement

import (
	"cmp"
	"fmt"
	"strings"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Index is the inventory of one namespace. The time that Place takes depends on how many kinds of hosts there are, not
// on how many hosts. Index keeps the hosts that it is given and never changes them. It is not safe for concurrent use.
// Create it with NewIndex.
type Index struct {
	hosts map[string]*infrav1.CapstanHost
	// closed counts, by obstacle, the hosts that no request can get. All other hosts are open.
	closed [obstacles]int
	// machines counts the machines of each crowd; Place prefers the zone with the smallest crowd.
	machines map[crowd]int
	// views group the open hosts, by the label keys and the hardware that requests ask for.
	views map[string]*view
	asked int
}

// crowd identifies the machines of one cluster and role in one zone.
type crowd struct {
	cluster, zone string
	controlPlane  bool
}

// nobody is the crowd of a host without a machine. Every other crowd has a cluster.
var nobody crowd

// NewIndex returns an empty inventory.
func NewIndex() *Index {
	return &Index{
		hosts: map[string]*infrav1.CapstanHost{}, machines: map[crowd]int{},
		views: map[string]*view{"": newView(nil, infrav1.HostRequirements{})},
	}
}

// Len returns the number of hosts.
func (x *Index) Len() int { return len(x.hosts) }

// Put adds a host or replaces the host of the same name. It reports whether results of Place may have changed.
func (x *Index) Put(host *infrav1.CapstanHost) (changed bool) {
	before := x.hosts[host.Name]
	x.hosts[host.Name] = host
	if before == nil || closedBy(before) != closedBy(host) || crowdOf(before) != crowdOf(host) {
		changed = true
		if before != nil {
			x.count(before, -1)
		}
		x.count(host, 1)
	}
	for _, v := range x.views {
		if closedBy(host) == none {
			changed = v.put(host) || changed
		} else {
			changed = v.remove(host.Name) || changed
		}
	}
	return changed
}

// Delete removes a host and reports whether it existed.
func (x *Index) Delete(name string) (changed bool) {
	host := x.hosts[name]
	if host == nil {
		return false
	}
	delete(x.hosts, name)
	x.count(host, -1)
	for _, v := range x.views {
		v.remove(name)
	}
	return true
}

// count adds a host to the counts that are the same for all requests, or removes it from them.
func (x *Index) count(host *infrav1.CapstanHost, by int) {
	x.closed[closedBy(host)] += by
	if c := crowdOf(host); c != nobody {
		if x.machines[c] += by; x.machines[c] == 0 {
			delete(x.machines, c)
		}
	}
}

// Place returns the host for the request, or nil, and the explanation. It prefers the zone with the fewest machines of
// the same cluster and role, then the host whose name comes first.
func (x *Index) Place(request Request) (*infrav1.CapstanHost, Explanation) {
	why := Explanation{Total: len(x.hosts), obstacles: x.closed}
	why.obstacles[none] = 0
	best, fewest := "", 0
	for _, s := range x.view(request).shapes {
		if o := s.obstacleTo(request); o != none {
			why.obstacles[o] += s.hosts.len()
			continue
		}
		why.Fit += s.hosts.len()
		name, n := s.hosts.first(), x.machines[crowd{request.Cluster, s.zone, request.ControlPlane}]
		if best == "" || cmp.Or(cmp.Compare(n, fewest), strings.Compare(name, best)) < 0 {
			best, fewest = name, n
		}
	}
	return x.hosts[best], why
}

// view returns the view for the label keys and the hardware in a request. It creates the view if necessary.
func (x *Index) view(request Request) *view {
	keys := keysOf(request.Selector)
	id := strings.Join(keys, ",") // no key has a comma
	if request.Hardware != (infrav1.HostRequirements{}) {
		id += fmt.Sprintf(",%+v", request.Hardware)
	}
	v := x.views[id]
	if v == nil {
		x.forgetOne()
		v = newView(keys, request.Hardware)
		for _, host := range x.hosts {
			if closedBy(host) == none {
				v.put(host)
			}
		}
		x.views[id] = v
	}
	x.asked++
	v.used = x.asked
	return v
}

// forgetOne makes room for a view by removing the least recently used one. The view without labels and hardware stays.
func (x *Index) forgetOne() {
	if len(x.views) < maxViews {
		return
	}
	oldest := ""
	for id, v := range x.views {
		if id != "" && (oldest == "" || v.used < x.views[oldest].used) {
			oldest = id
		}
	}
	delete(x.views, oldest)
}

// crowdOf returns the crowd of the machine on a host, or nobody.
func crowdOf(host *infrav1.CapstanHost) crowd {
	c := host.Spec.Claim
	if c == nil || c.Released {
		return nobody
	}
	return crowd{c.Cluster, host.Spec.Zone, c.ControlPlane}
}
