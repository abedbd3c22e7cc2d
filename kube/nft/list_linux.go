package nft

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// list writes the content of a table, or the elements of a set or map, as JSON.
func list(out io.Writer, what []string) error {
	family, ok := families[what[1]]
	if !ok {
		return fmt.Errorf("only families ip and ip6 can be listed, not %q", what[1])
	}
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.close()
	var all []map[string]any
	switch {
	case what[0] == "table" && len(what) == 3:
		all, err = c.table(family, what[1], what[2])
	case (what[0] == "set" || what[0] == "map") && len(what) == 4:
		all, err = c.elements(what[0], what[1], setName{family, what[2], what[3]})
	default:
		return errors.New("only one table, set or map can be listed")
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", strings.Join(what, " "), err)
	}
	about := map[string]any{"metainfo": map[string]any{"version": version, "json_schema_version": 1}}
	return json.NewEncoder(out).Encode(map[string]any{"nftables": append([]map[string]any{about}, all...)})
}

// table returns the names of the objects in a table.
func (c *conn) table(family byte, familyName, table string) ([]map[string]any, error) {
	var what attributes
	what.text(unix.NFTA_TABLE_NAME, table)
	if _, err := c.ask(unix.NFT_MSG_GETTABLE, family, what); err != nil {
		return nil, err
	}
	object := func(kind, name string) map[string]any {
		return map[string]any{kind: map[string]any{"family": familyName, "table": table, "name": name}}
	}
	all := []map[string]any{{"table": map[string]any{"family": familyName, "name": table}}}
	chains, err := c.list(unix.NFT_MSG_GETCHAIN, family, nil)
	if err != nil {
		return nil, err
	}
	for _, chain := range chains {
		if word(chain, unix.NFTA_CHAIN_TABLE) == table {
			all = append(all, object("chain", word(chain, unix.NFTA_CHAIN_NAME)))
		}
	}
	what = nil
	what.text(unix.NFTA_SET_TABLE, table)
	sets, err := c.list(unix.NFT_MSG_GETSET, family, what)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		flags := number32(set, unix.NFTA_SET_FLAGS)
		if flags&unix.NFT_SET_ANONYMOUS == 0 {
			all = append(all, object(setType{isMap: flags&unix.NFT_SET_MAP != 0}.word(), word(set, unix.NFTA_SET_NAME)))
		}
	}
	return all, nil
}

// elements returns the elements of a set or map.
func (c *conn) elements(object, familyName string, name setName) ([]map[string]any, error) {
	t, err := c.setType(name)
	if err != nil {
		return nil, err
	}
	if t.word() != object {
		return nil, unix.ENOENT
	}
	var what attributes
	what.text(unix.NFTA_SET_ELEM_LIST_TABLE, name.table)
	what.text(unix.NFTA_SET_ELEM_LIST_SET, name.name)
	parts, err := c.list(unix.NFT_MSG_GETSETELEM, name.family, what)
	if err != nil {
		return nil, err
	}
	elements := []any{}
	for _, part := range parts {
		each(value(part, unix.NFTA_SET_ELEM_LIST_ELEMENTS), func(_ uint16, e []byte) {
			one, failed := t.element(e)
			err = errors.Join(err, failed)
			elements = append(elements, one)
		})
	}
	set := map[string]any{"family": familyName, "table": name.table, "name": name.name, "elem": elements}
	return []map[string]any{{object: set}}, err
}

// element returns an element in the form of nft's JSON lists.
func (t setType) element(data []byte) (any, error) {
	key, err := t.key.decode(value(value(data, unix.NFTA_SET_ELEM_KEY), unix.NFTA_DATA_VALUE))
	if err != nil {
		return nil, err
	}
	if comment := noted(value(data, unix.NFTA_SET_ELEM_USERDATA), noteComment); len(comment) > 0 {
		key = map[string]any{"elem": map[string]any{"val": key, "comment": strings.TrimRight(string(comment), "\x00")}}
	}
	if !t.isMap {
		return key, nil
	}
	said := value(value(data, unix.NFTA_SET_ELEM_DATA), unix.NFTA_DATA_VERDICT)
	code := int32(number32(said, unix.NFTA_VERDICT_CODE))
	for name, number := range verdicts {
		if number != code {
			continue
		}
		if chain := word(said, unix.NFTA_VERDICT_CHAIN); chain != "" {
			return []any{key, map[string]any{name: map[string]any{"target": chain}}}, nil
		}
		return []any{key, map[string]any{name: nil}}, nil
	}
	return nil, fmt.Errorf("unknown verdict %d", code)
}
