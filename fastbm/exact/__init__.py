"""All that can be summed exactly: engines that plan a sum over all states, cut it into pieces, and draw from it."""
