//go:build linux

package nft_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/knftables"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/network/nettest"
	"github.com/capstan-dev/capstan/kube/nft"
)

func TestMain(m *testing.M) {
	if tools := os.Getenv("CAPSTAN_HOST_TOOLS"); tools != "" { // kube-proxy's library looks for nft in PATH
		os.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	}
	os.Exit(hosttest.Main(m, map[string]string{"nft": "../cmd/capstan-nft"}))
}

// do runs the command with a transaction in a namespace.
func do(s *nettest.Space, text string, args ...string) (out string, err error) {
	s.Do(func() error {
		var stdout, stderr bytes.Buffer
		if nft.Main(args, strings.NewReader(text), &stdout, &stderr) != 0 {
			err = fmt.Errorf("%s", &stderr)
		}
		out = stdout.String()
		return nil
	})
	return out, err
}

// others returns the machine's nft program, and skips the test if there is none.
func others(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"} {
		if _, err := os.Stat(dir + "/nft"); err == nil {
			return dir + "/nft"
		}
	}
	t.Skip("this machine has no nft program to compare with (Debian's package nftables)")
	return ""
}

// From kube-proxy's transactions, capstan-nft creates the same tables as the nft program does. The test lists both
// results with the nft program.
func TestTheKernelHasWhatNftMakes(t *testing.T) {
	hosttest.Need(t)
	program := others(t)
	for _, family := range []string{"ip", "ip6"} {
		text, err := os.ReadFile("testdata/" + family + ".nft")
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := nettest.New(t), nettest.New(t)
		if _, err := do(ours, string(text), "-f", "-"); err != nil {
			t.Fatal(err)
		}
		show := func(s *nettest.Space, input string, args ...string) (list string) {
			s.Do(func() error {
				c := exec.Command(program, args...)
				c.Stdin = strings.NewReader(input)
				out, err := c.CombinedOutput()
				if list = string(out); err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			})
			return list
		}
		show(theirs, string(text), "-f", "-")
		got, want := show(ours, "", "list", "ruleset"), show(theirs, "", "list", "ruleset")
		if got != want {
			t.Errorf("%s: the tables are\n%s\nwant\n%s", family, got, want)
		}
	}
}

// kube-proxy's own library reads our lists and errors.
func TestKnftablesReadsLists(t *testing.T) {
	hosttest.Need(t)
	s := nettest.New(t)
	s.Do(func() error {
		ctx := context.Background()
		tables, err := knftables.New(knftables.IPv4Family, "kube-proxy")
		if err != nil {
			return err
		}
		if _, err := tables.ListAll(ctx); !knftables.IsNotFound(err) {
			t.Errorf("listing a missing table: %v", err)
		}
		if _, err := tables.ListElements(ctx, "map", "to"); !knftables.IsNotFound(err) {
			t.Errorf("listing a missing map: %v", err)
		}
		tx := tables.NewTransaction()
		comment := "a comment"
		tx.Add(&knftables.Table{Comment: &comment})
		tx.Add(&knftables.Chain{Name: "away"})
		tx.Add(&knftables.Set{Name: "who", Type: "ipv4_addr", Comment: &comment})
		tx.Add(&knftables.Map{Name: "to", Type: "ipv4_addr . inet_proto . inet_service : verdict"})
		want := []*knftables.Element{
			{Map: "to", Key: []string{"10.0.0.1", "tcp", "80"}, Value: []string{"goto away"}},
			{Map: "to", Key: []string{"10.0.0.1", "udp", "53"}, Value: []string{"drop"}, Comment: &comment},
			{Set: "who", Key: []string{"10.0.0.1"}},
		}
		for _, e := range want {
			tx.Add(e)
		}
		if err := tables.Check(ctx, tx); err != nil {
			t.Errorf("checking: %v", err)
		}
		if _, err := tables.ListAll(ctx); !knftables.IsNotFound(err) {
			t.Errorf("a check created the table: %v", err)
		}
		if err := tables.Run(ctx, tx); err != nil {
			return err
		}
		all, err := tables.ListAll(ctx)
		if got := fmt.Sprint(all); err != nil || got != "map[chain:[away] map:[to] set:[who] table:[kube-proxy]]" {
			t.Errorf("the objects are %s, %v", got, err)
		}
		got, err := tables.ListElements(ctx, "map", "to")
		slices.SortFunc(got, func(a, b *knftables.Element) int { return strings.Compare(a.Key[1], b.Key[1]) })
		who, err2 := tables.ListElements(ctx, "set", "who")
		if a, b := describe(append(got, who...)), describe(want); a != b {
			t.Errorf("elements are\n%s, %v, %v; want\n%s", a, err, err2, b)
		}
		tx = tables.NewTransaction()
		tx.Add(&knftables.Chain{Name: "new"})
		tx.Delete(&knftables.Chain{Name: "missing"})
		if err := tables.Run(ctx, tx); !knftables.IsNotFound(err) {
			t.Errorf("deleting a missing chain: %v", err)
		}
		if chains, err := tables.List(ctx, "chain"); err != nil || !slices.Equal(chains, []string{"away"}) {
			t.Errorf("part of a failed transaction was executed: %v, %v", chains, err)
		}
		return nil
	})
}

func describe(all []*knftables.Element) string {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintln(&b, e.Set, e.Map, e.Key, e.Value)
		if e.Comment != nil {
			fmt.Fprintln(&b, *e.Comment)
		}
	}
	return b.String()
}

// A transaction that is not understood is refused as a whole and changes nothing.
func TestWhatKubeProxyDoesNotWriteIsRefused(t *testing.T) {
	hosttest.Need(t)
	const table = "add table ip kube-proxy\nadd chain ip kube-proxy c\n" +
		"add set ip kube-proxy s { type ipv4_addr ; }\n" +
		"add map ip kube-proxy m { type ipv4_addr . inet_proto . inet_service : verdict ; }\n"
	cases, err := os.ReadFile("testdata/refused.txt")
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for line := range strings.Lines(string(cases)) {
		want, isWant := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t")
		if !isWant {
			text = line
			continue
		}
		s := nettest.New(t)
		if _, err := do(s, table+text, "-f", "-"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
		if _, err := do(s, "", "--json", "list", "table", "ip", "kube-proxy"); err == nil ||
			!strings.Contains(err.Error(), "No such file or directory") {
			t.Errorf("%s: the refused transaction changed something: %v", text, err)
		}
	}
}

func TestOtherCommandsAreRefused(t *testing.T) {
	hosttest.Need(t)
	s := nettest.New(t)
	for args, want := range map[string]string{
		"":                               "does only what kube-proxy needs",
		"list ruleset":                   "does only what kube-proxy needs",
		"list table kube-proxy":          "does only what kube-proxy needs", // kube-proxy logs this at level 4 and continues
		"-f /etc/nftables.conf":          "does only what kube-proxy needs",
		"--json list ruleset":            "does only what kube-proxy needs",
		"--json list table inet x":       "only families ip and ip6",
		"--json list chain ip x y":       "only one table, set or map",
		"--json list set ip x":           "only one table, set or map",
		"--json --terse list table ip x": "No such file or directory",
	} {
		if _, err := do(s, "", strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("nft %s: got %v, want %q", args, err, want)
		}
	}
	if out, err := do(s, "", "--version"); err != nil || !strings.HasPrefix(out, "nftables v1.0.9 ") {
		t.Errorf("the version is %q, %v", out, err)
	}
}

// services returns a transaction that creates n Services with two backends each.
func services(n int) string {
	var b strings.Builder
	b.WriteString("add table ip kube-proxy\nadd set ip kube-proxy ips { type ipv4_addr ; }\n" +
		"add map ip kube-proxy to { type ipv4_addr . inet_proto . inet_service : verdict ; }\n")
	for i := range n {
		address := fmt.Sprintf("10.96.%d.%d", i/250, i%250)
		chain := fmt.Sprintf("service-%08d-namespace/name-%d/tcp/http", i, i)
		fmt.Fprintf(&b, "add chain ip kube-proxy %s\nadd element ip kube-proxy ips { %s }\n", chain, address)
		fmt.Fprintf(&b, "add rule ip kube-proxy %s ip daddr %s tcp dport 80 ip saddr != 10.244.0.0/16 "+
			"mark set mark or 0x4000\n", chain, address)
		fmt.Fprintf(&b, "add rule ip kube-proxy %s meta l4proto tcp dnat ip addr . port to numgen random mod 2 map "+
			"{ 0 : 10.244.%d.%d . 80 , 1 : 10.244.%d.%d . 81 }\n", chain, i/250, i%250, i/250, i%250)
		fmt.Fprintf(&b, "add element ip kube-proxy to { %s . tcp . 80 : goto %s }\n", address, chain)
	}
	return b.String()
}

// A host of a rootless dock can send only as much at once as any user. With the kernel's defaults, that is enough
// for 200 Services.
func TestManyServices(t *testing.T) {
	hosttest.Need(t)
	if _, err := do(nettest.New(t), services(200), "-f", "-"); err != nil {
		t.Error(err)
	}
}

// No input causes a panic. The fuzz test only checks transactions and executes none.
func FuzzTransaction(f *testing.F) {
	for _, name := range []string{"testdata/ip.nft", "testdata/ip6.nft"} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f.Add(line)
		}
	}
	f.Fuzz(func(_ *testing.T, line string) {
		nft.Main([]string{"--check", "-f", "-"}, strings.NewReader(line), &bytes.Buffer{}, &bytes.Buffer{})
	})
}
