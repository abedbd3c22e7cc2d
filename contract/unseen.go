package contract

// unseen lists the static provider rules that no check covers, with the reason: a release does not contain what the
// rule asks for, or another rule covers it.
var unseen = map[string]string{
	"CT-08": "the list of other providers is not in a release",
	"CT-11": "the organisation of a repository is not in a release",
	"CT-15": "the tag is on the host of the repository; CT-26 looks at the directory",
	"CT-16": "the assets are on the host of the repository; CT-02 and CT-03 look at the directory",
	"BP-04": "RV-02, which against-served looks at, is the part that files show",
	"CP-04": "RV-02, which against-served looks at, is the part that files show",
	"MP-04": "RV-02, which against-served looks at, is the part that files show",
	"CT-01": "the address of a repository is not in a release",
	"CT-21": "the address of a package is not in a release",
	"CT-22": "the package is on the host of the repository; CT-02 and CT-03 look at the directory",
	"CT-25": "a directory without provider label may be one for a single release; CT-73 looks at those that are " +
		"named like one",
	"CT-27": "the same as CT-02 and CT-03 in a directory",
	"CT-28": "the same as CT-02 in a directory",
	"CT-64": "whether templates are published elsewhere is not in a release",
	"CT-77": "whether classes are published elsewhere is not in a release",
	"IC-04": "the choice of a group is RB-05 to RB-07 seen from its effect",
	"IC-41": "represents all rules of family CT",
	"CT-19": "the address of a package is not in a release",
	"CT-20": "the address of a package is not in a release",
	"CT-54": "which short names a provider has, and which variables it shares with others, is not in a release",
	"IC-05": "RV-02, which against-served looks at, is the part that files show",
	"IC-13": "a definition counts as one of clusters by this name; IC-01 looks for one",
	"IC-29": "contract v1beta2 has conditions for it, whose types are in the code of the provider",
	"IC-39": "which flags a manager takes is in its code",
	"IC-40": "which flags a manager takes is in its code",
	"IM-34": "a definition counts as one of machines by this name; IM-01 looks for one",
	"IM-66": "which flags a manager takes is in its code",
	"RB-10": "whether the provider sets blockOwnerDeletion is in its code",
}

// Unseen returns why no check of files covers a rule that files could show, or "".
func Unseen(rule string) string { return unseen[rule] }
