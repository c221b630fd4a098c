package depth

// unreached are the conditions that sequences on one node do not meet, in parts
// of which less than their share is reached. Methods are named, not lines.
var unreached = []out{}
