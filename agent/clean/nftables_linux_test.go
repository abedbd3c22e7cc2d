package clean

import (
	"slices"
	"testing"

	"github.com/google/nftables"

	"github.com/capstan-dev/capstan/agent/bootstrap"
	"github.com/capstan-dev/capstan/agent/internal/testhost"
)

// TestTablesOfTheMachine: cleaning removes a machine's tables without any program of the host, and keeps the host's own
// tables.
func TestTablesOfTheMachine(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		c := newCleaner(t)
		conn, err := nftables.New()
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range []nftables.Table{
			{Name: "kube-proxy", Family: nftables.TableFamilyIPv4}, {Name: "kube-proxy", Family: nftables.TableFamilyIPv6},
			{Name: "capstan-net", Family: nftables.TableFamilyIPv4}, {Name: "cni_hostport", Family: nftables.TableFamilyIPv4},
			{Name: "capstan-pods", Family: nftables.TableFamilyINet}, {Name: "capstan-routes", Family: nftables.TableFamilyINet},
			{Name: "filter", Family: nftables.TableFamilyINet},
		} {
			conn.AddTable(&table)
		}
		if err := conn.Flush(); err != nil {
			t.Skipf("this kernel has no nftables: %v", err)
		}
		left := func() []string {
			t.Helper()
			var names []string
			all, err := conn.ListTables()
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range all {
				names = append(names, tableName(table))
			}
			slices.Sort(names)
			return names
		}
		found, err := c.rules(t.Context())
		slices.Sort(found)
		if want := []string{
			"nftables table inet capstan-pods", "nftables table inet capstan-routes",
			"nftables table ip capstan-net", "nftables table ip kube-proxy", "nftables table ip6 kube-proxy",
		}; err != nil || !slices.Equal(found, want) {
			t.Errorf("found %q, %v; want %q", found, err, want)
		}
		if err := c.deleteTables(); err != nil {
			t.Fatal(err)
		}
		if got, want := left(), []string{"inet filter", "ip cni_hostport"}; !slices.Equal(got, want) {
			t.Errorf("tables left: %q, want %q: the container runtime is the host's own", got, want)
		}
		if err := c.Journal.Note(bootstrap.KeyBundle, "v1.36.3"); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time, there are no such tables any more
			if err := c.deleteTables(); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := left(), []string{"inet filter"}; !slices.Equal(got, want) {
			t.Errorf("tables left: %q, want %q: the container runtime came with the machine", got, want)
		}
	})
}
