float sum(const std::vector<float>& values) {
    float total = 0;
    for (float value : values) total += value;
    return total;
}
