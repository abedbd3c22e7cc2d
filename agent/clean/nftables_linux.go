package clean

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/bootstrap"
)

// machineTables are the nftables tables of kube-proxy, of capstan-net, and of the pod network of Capstan's bundle. The
// host itself may have no nft program.
var machineTables = []string{"kube-proxy", "capstan-net", "capstan-pods", "capstan-routes"}

// runtimeTable is the table of the CNI plugin for hostPorts. A host may have this table for containers of its own. The
// table belongs to the machine only if the container runtime does.
const runtimeTable = "cni_hostport"

// families are nft's names for address families.
var families = map[nftables.TableFamily]string{
	nftables.TableFamilyINet: "inet", nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6",
}

// tables returns the machine's tables.
func (c *Cleaner) tables() ([]*nftables.Table, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	all, err := conn.ListTables()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // the kernel has no nftables, so there are no tables
	}
	if err != nil {
		return nil, fmt.Errorf("listing the tables of nftables: %w", err)
	}
	runtime := len(c.Journal.Notes(bootstrap.KeyBundle)) > 0
	return slices.DeleteFunc(all, func(t *nftables.Table) bool {
		return !slices.Contains(machineTables, t.Name) && !(runtime && t.Name == runtimeTable)
	}), nil
}

// deleteTables deletes the tables of the machine.
func (c *Cleaner) deleteTables() error {
	all, err := c.tables()
	if err != nil || len(all) == 0 {
		return err
	}
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	for _, t := range all {
		c.Log.Printf("deleting nftables table %s", tableName(t))
		conn.DelTable(t)
	}
	return conn.Flush()
}

// tableName returns the family and the name of a table in nft's notation.
func tableName(t *nftables.Table) string {
	family, known := families[t.Family]
	if !known {
		family = fmt.Sprint(t.Family)
	}
	return family + " " + t.Name
}
